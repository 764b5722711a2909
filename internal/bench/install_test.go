package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := install(program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 || path == program {
		t.Errorf("installed at %s: %v, %v", path, info, err)
	}
	if content, err := os.ReadFile(path); string(content) != "#!/bin/sh\n" {
		t.Errorf("installed %q: %v", content, err)
	}
	if _, err := install(program+".missing", t.TempDir()); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("a program that is not there: %v", err)
	}
}

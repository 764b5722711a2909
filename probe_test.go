package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// commandIn runs pilotlight here, with a runtime folder, and returns its exit code and all that it printed.
func commandIn(tb testing.TB, runtime string, arguments ...string) (code int, out, complaint string) {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	std := &stdio{in: strings.NewReader(""), out: &stdout, err: &stderr, env: []string{"XDG_RUNTIME_DIR=" + runtime}}
	code = execute(std, arguments)

	return code, stdout.String(), stderr.String()
}

// TestProbeSaysWhyInOneLine asks a pod that waits for its backend, and one that is ready.
func TestProbeSaysWhyInOneLine(t *testing.T) {
	waiting := freePorts(t)
	cold := waiting.configure(t, "http: '"+freeAddress(t)+"'", "")
	of := start(t, "run", "-c", cold)
	until(t, "http://"+waiting.health+"/livez", http.StatusOK)
	ready, _ := newStreaming(t).front(t, "{settle: 0s}")
	nobody := freeAddress(t)
	for _, test := range []struct {
		name      string
		arguments []string
		code      int
		says      string
	}{
		{"not ready", []string{"-c", cold}, 1, "pilotlight: not ready: starting"},
		{"not ready, asked for", []string{"--ready", "-c", cold}, 1, "pilotlight: not ready: starting"},
		{"alive", []string{"--live", "-c", cold}, 0, "ok"},
		{"started", []string{"--startup", "-c", cold}, 0, "ok"},
		{"ready, without a file", []string{"--health", ready.health}, 0, "ok: ready"},
		{"one model", []string{"--health", ready.health, "--model", "default"}, 0, "ok: ready"},
		{"no such model", []string{"--health", ready.health, "--model", "a&b=c +"}, 1, "pilotlight: no such model"},
		{"nobody is there", []string{"--health", nobody}, 1, "pilotlight: ask /readyz at " + nobody},
		{"two questions", []string{"--live", "--ready"}, exitUsage, "pilotlight: if any flags in the group [ready live startup model] are set none of the others can be; [live ready] were all set"},
		{"no such file", []string{"-c", "/nonexistent"}, exitUsage, "nonexistent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, complaint := commandIn(t, of.runtime, append([]string{"probe"}, test.arguments...)...)
			said := out + complaint
			if code != test.code || !strings.Contains(said, test.says) {
				t.Errorf("exit code %d, %q, expected %d and %q", code, said, test.code, test.says)
			}
			if test.code < exitUsage && strings.Count(said, "\n") != 1 {
				t.Errorf("not one line: %q", said)
			}
		})
	}
}

func TestProbeIsNotHeldUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	began := time.Now()
	code, _, complaint := commandIn(t, t.TempDir(), "probe", "--health", silent.Addr().String())
	if took := time.Since(began); code != exitFailure || !strings.Contains(complaint, "no answer within") || took > 5*time.Second {
		t.Errorf("exit code %d after %s: %s", code, took, complaint)
	}
}

// TestC69DrainCommandBeginsTheDrain is what the hook of a native sidecar runs.
func TestC69DrainCommandBeginsTheDrain(t *testing.T) {
	p, of := newStreaming(t).front(t, "{settle: 0s}")
	if code, out, complaint := commandIn(t, of.runtime, "drain", "--admin", p.admin); code != 0 || out != "draining\n" {
		t.Errorf("exit code %d: %s%s", code, out, complaint)
	}
	until(t, p.readyz(), http.StatusServiceUnavailable)
	if status, body := get(t, "http://"+p.data+"/predict"); status != http.StatusOK {
		t.Errorf("the drain ended the serving: %d %s", status, body)
	}
}

func TestDrainCommandNeedsTheToken(t *testing.T) {
	p, _ := newStreaming(t).front(t, "{settle: 0s}")
	other := t.TempDir()
	if code, out, complaint := commandIn(t, other, "drain", "--admin", p.admin); code != exitFailure || !strings.Contains(complaint, "token") {
		t.Errorf("exit code %d: %s%s", code, out, complaint)
	}
	if _, err := os.Stat(filepath.Join(other, "pilotlight", "admin-token")); err == nil {
		t.Error("a token was made that nobody knows")
	}
	if err := os.MkdirAll(filepath.Join(other, "pilotlight"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "pilotlight", "admin-token"), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, complaint := commandIn(t, other, "drain", "--admin", p.admin); code != exitFailure || !strings.Contains(complaint, "status 401") {
		t.Errorf("with a wrong token: exit code %d: %s%s", code, out, complaint)
	}
	if status, body := get(t, p.readyz()); status != http.StatusOK {
		t.Errorf("it drains all the same: %s", body)
	}
}

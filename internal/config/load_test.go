package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// update rewrites golden files: go test ./internal/config -update.
var update = flag.Bool("update", false, "rewrite golden files")

// TestGolden loads each testdata/*.txtar and compares what is said about it, warnings first, with its section "want".
// The section "env" holds environment variables, the section "strict" asks for strictness.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d golden files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := golden(t, archive)
			want := ""
			for i, section := range archive.Files {
				if section.Name != "want" {
					continue
				}
				want = string(section.Data)
				archive.Files = archive.Files[:i]
			}
			if *update {
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}

				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("differs from what is expected (-want +got), rewrite with -update:\n%s", diff)
			}
		})
	}
}

func golden(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	source := Source{Path: "pilotlight.yaml"}
	var data []byte
	for _, section := range archive.Files {
		switch section.Name {
		case "pilotlight.yaml":
			data = section.Data
		case "env":
			source.Env = strings.Fields(string(section.Data))
		case "strict":
			source.Strict = true
		}
	}
	var said strings.Builder
	_, warnings, err := source.load(data)
	for _, warning := range warnings {
		said.WriteString("warning: " + warning.String() + "\n")
	}
	if err == nil {
		said.WriteString("accepted\n")

		return said.String()
	}
	var refusal *RefusalError
	if !errors.As(err, &refusal) || refusal.ExitCode() != 2 {
		t.Errorf("error %v is no refusal with exit code 2", err)
	}
	said.WriteString(err.Error() + "\n")

	return said.String()
}

func TestLoadPrecedence(t *testing.T) {
	t.Parallel()
	source := Source{
		Path: "pilotlight.yaml",
		Env:  []string{"PATH=/bin", "PILOTLIGHT_BACKEND_HTTP=env:1", "PILOTLIGHT_LISTEN_DATA=:7000"},
		Overrides: []Override{
			{Flag: "--backend", Path: "backend.http", Text: "flag:1"},
			{Flag: "--model", Path: "models", Set: func(c *Config) { c.Models[0].Name = "flagged" }},
		},
	}
	c, warnings, err := source.load([]byte("\ufeffversion: 1\r\nbackend: {http: 'file:1', grpc: 'file:2'}\r\nlisten: {data: ':6000'}\r\nmodels: [{name: a}, {name: b, required: false}]\r\n"))
	if err != nil || len(warnings) != 0 {
		t.Fatal(warnings, err)
	}
	if c.Backend.HTTP.String() != "flag:1" || c.Backend.GRPC.String() != "file:2" || c.Listen.Data.String() != ":7000" || c.Models[0].Name != "flagged" {
		t.Errorf("flags do not win over the environment, or that not over the file: %+v, %+v, %+v", c.Backend, c.Listen, c.Models)
	}
	if !c.Models[0].Required || c.Models[1].Required {
		t.Errorf("a model is required unless it says otherwise: %+v", c.Models)
	}
	if diff := cmp.Diff(Default().Circuit, c.Circuit); diff != "" {
		t.Errorf("what nobody set is not the default:\n%s", diff)
	}
}

func TestLoadWithoutAFile(t *testing.T) {
	t.Parallel()
	c, _, err := Load(Source{Overrides: []Override{{Flag: "--backend", Path: "backend.http", Text: "[::1]:8000"}}})
	if err != nil || c.Backend.HTTP != (units.Address{Network: "tcp", Host: "[::1]:8000"}) {
		t.Errorf("got %+v, %v", c, err)
	}
	_, _, err = Load(Source{Overrides: []Override{{Flag: "--backend", Path: "backend.http", Text: "::1"}}})
	if want := `--backend: backend.http: parse address "::1": `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, expected one that begins with %s", err, want)
	}
	_, _, err = Load(Source{Overrides: []Override{{Flag: "--bakcend", Path: "bakcend.http", Text: ":1"}}})
	if err == nil {
		t.Error("an override of a key that does not exist is accepted")
	}
	_, _, err = Load(Source{})
	if err == nil || !strings.Contains(err.Error(), "no backend is named") {
		t.Errorf("got error %v", err)
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	_, _, err := Load(Source{Path: missing})
	if want := missing + ": open file: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got error %v, expected %s", err, want)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err = Load(Source{Path: large}); err == nil || !strings.Contains(err.Error(), "more than 1MiB") {
		t.Errorf("got error %v", err)
	}
}

func TestLoadLetsTheCallerHaveTheLastWord(t *testing.T) {
	t.Parallel()
	source := Source{Path: "p.yaml", Check: func(*Config) error { return errors.New("steps a, b need each other") }}
	_, _, err := source.load([]byte("version: 1\nbackend: {http: 'h:1'}\n"))
	if err == nil || err.Error() != "p.yaml: steps a, b need each other" {
		t.Errorf("got error %v", err)
	}
}

func TestEveryVariableSetsAKey(t *testing.T) {
	t.Parallel()
	for _, v := range Variables() {
		if into, ok := lookup(reflect.ValueOf(Default()).Elem(), v.Path); !ok || !isScalar(into.Type()) {
			t.Errorf("%s sets %s, which is no key with one value", v.Name, v.Path)
		}
	}
}

func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := Source{Path: "f.yaml"}.load(data)
		if err != nil {
			_ = err.Error()

			return
		}
		roundTrip(t, c)
	})
}

func FuzzSecretsStaySecret(f *testing.F) {
	f.Add("version: 1\nbackend:\n  http: localhost:8000\n  headers: {a: {value: ", "}}\n")
	f.Add("backend:\n  headers:\n    a:\n      value: ", "\n      fil: x\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "hunter2hunter2"
		data := before + secret + after
		c, warnings, err := Source{Path: "f.yaml"}.load([]byte(data))
		if err != nil || len(c.Backend.Headers) == 0 || strings.Contains(before+after, "hunter") {
			return
		}
		if c.Backend.Headers["a"].Value.Reveal() != secret {
			return
		}
		var said strings.Builder
		if err := Print(&said, c); err != nil {
			t.Fatal(err)
		}
		for _, warning := range warnings {
			said.WriteString(warning.String())
		}
		if strings.Contains(said.String(), secret) {
			t.Errorf("the secret is shown:\n%s", said.String())
		}
	})
}

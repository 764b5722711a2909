package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestValidatePrintsWhatIsInForce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pilotlight.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nbackend: {http: 'localhost:8000'}\nhold: {max_wait: {start: 15s}}\nwarmup: {timeout: 10m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	source := Source{Path: file, Env: []string{"PILOTLIGHT_GRACE_PERIOD=1m", "PILOTLIGHT_LOG_LEVEL=debug"}}
	resolver := Resolver{Memory: func(units.Auto[units.Size]) int64 { return 5 << 20 }}
	if err := Validate(&out, &errs, source, resolver); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"start: 15s", "memory: 5MiB", "limit: 53s", "level: debug", "http: localhost:8000"} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
	if !strings.HasPrefix(errs.String(), "warning: "+file+":3:26: hold.max_wait.start: ") || strings.Count(errs.String(), "warning:") != 1 {
		t.Errorf("warnings:\n%s", errs.String())
	}

	// What is printed is a configuration: it loads.
	printed := filepath.Join(t.TempDir(), "printed.yaml")
	if err := os.WriteFile(printed, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(Source{Path: printed}); err != nil {
		t.Errorf("what validate prints is refused: %v", err)
	}

	out.Reset()
	source.Strict = true
	var refusal *RefusalError
	if err := Validate(&out, &errs, source, resolver); !errors.As(err, &refusal) || refusal.ExitCode() != 2 || out.Len() > 0 {
		t.Errorf("strict: got error %v and %d bytes of output", err, out.Len())
	}
}

// TestVariablesAreDocumented keeps the table in docs/configuration.md true.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Variables() {
		if !strings.Contains(string(text), "| `"+v.Name+"` | `"+v.Path+"` |") {
			t.Errorf("%s, which sets %s, is not in the table", v.Name, v.Path)
		}
	}
	for _, name := range otherVariables() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s is not documented", name)
		}
	}
}

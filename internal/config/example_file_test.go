package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// exampleFile is the contract of keys and defaults.
const exampleFile = "../../docs/pilotlight.example.yaml"

// missing lists the keys of the contract whose features are still to come. Whoever adds a key takes it off this list.
func missing() []string {
	return []string{
		"circuit.rules", "circuit.slow",
		"fallback", "fleet",
		"load_reports",
		"telemetry.access_log", "telemetry.first_requests",
		"xds.control_plane",
	}
}

// readExample reads the example over c and returns the keys that are unknown; any other problem fails the test.
func readExample(t *testing.T, c *Config) (*document, []string) {
	t.Helper()
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	d := newDocument("pilotlight.example.yaml")
	d.readInto(c, data)
	unknown := make([]string, 0, len(d.problems))
	for _, problem := range d.problems {
		if !problem.unknown {
			t.Errorf("the example is refused: %s", problem)
		}
		unknown = append(unknown, problem.Path)
	}
	slices.Sort(unknown)

	return d, unknown
}

func TestKeysOfTheExampleThatAreMissing(t *testing.T) {
	t.Parallel()
	_, unknown := readExample(t, Default())
	t.Logf("%d keys of the example are still missing: %s", len(unknown), strings.Join(unknown, " "))
	for _, path := range missing() {
		if !slices.Contains(unknown, path) {
			t.Errorf("%s is known, or no longer in the example: take it off the list", path)
		}
	}
	for _, path := range unknown {
		if !slices.Contains(missing(), path) {
			t.Errorf("%s is in the example, unknown, and not listed as missing", path)
		}
	}
}

func TestDefaultsAreThoseOfTheExample(t *testing.T) {
	t.Parallel()
	c := Default()
	d, _ := readExample(t, c)
	// The example names a backend, for which there is no default.
	if c.Backend.HTTP.String() != "localhost:8000" {
		t.Errorf("the example's backend is %s", c.Backend.HTTP)
	}
	if changed := Changes(Default(), c); !slices.Equal(changed, []string{"backend.http"}) {
		t.Errorf("the example differs from the defaults in %v", changed)
	}
	// Read over nothing, it still gives the defaults: so it names them all.
	bare := &Config{}
	readExample(t, bare)
	if changed := Changes(Default(), bare); !slices.Equal(changed, []string{"backend.http"}) {
		t.Errorf("the example leaves out, or differs in, %v", changed)
	}
	for _, path := range keyPaths(reflect.TypeFor[Config](), "") {
		if !d.explicit(path) {
			t.Errorf("%s is no key of the example", path)
		}
	}
}

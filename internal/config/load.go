package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// maxFile bounds what is read: a configuration is written by people.
const maxFile = 1 << 20

// Source is where a configuration comes from. Later ones win: the defaults, the file, the environment, the flags.
type Source struct {
	// Path is the file; empty for none.
	Path string
	// Env is the environment, as [os.Environ] gives it.
	Env []string
	// Overrides come from flags, in order.
	Overrides []Override
	// Strict makes warnings problems.
	Strict bool
	// Check, when not nil, has the last word on values that are all right by themselves, such as a plan with a cycle.
	// Its error is reported for the file as a whole. It must change nothing.
	Check func(*Config) error
}

// Override is one flag that sets one key.
type Override struct {
	// Flag is what the user wrote, such as "--backend"; errors name it.
	Flag string
	// Path is the dotted path of the key, such as "backend.http".
	Path string
	// Text is the value as it would stand in the file, for keys that hold one value.
	Text string
	// Set, when not nil, sets the key instead of Text; for keys that hold a list.
	Set func(*Config)
}

// Load reads, checks and returns a configuration, with "auto" still in it ([Resolver] resolves it), and what is strange about it.
// The error is a [*RefusalError] that lists everything that is wrong.
func Load(source Source) (*Config, []Problem, error) {
	var data []byte
	if source.Path != "" {
		var err error
		if data, err = readFile(source.Path); err != nil {
			return nil, nil, &RefusalError{Problems: []Problem{{Source: source.Path, Text: err.Error()}}}
		}
	}

	return source.load(data)
}

// load does what Load does with the file's bytes.
func (s Source) load(data []byte) (*Config, []Problem, error) {
	d := newDocument(s.Path)
	c := Default()
	if s.Path != "" {
		d.readInto(c, data)
	}
	grace, warnings := d.environment(c, s.Env)
	d.override(c, s.Overrides)
	if len(d.problems) == 0 { // a misspelt key would otherwise be reported as missing too
		d.check(c)
	}
	if len(d.problems) == 0 && s.Check != nil {
		if err := s.Check(c); err != nil {
			d.problems = append(d.problems, Problem{Source: s.Path, Text: err.Error()})
		}
	}
	if len(d.problems) == 0 {
		warnings = append(warnings, d.contradictions(c, grace)...)
	}
	if s.Strict {
		d.problems = append(d.problems, warnings...)
		warnings = nil
	}
	inOrder(warnings)
	if len(d.problems) > 0 {
		inOrder(d.problems)

		return nil, warnings, &RefusalError{Problems: d.problems}
	}

	return c, warnings, nil
}

// readInto reads the file over the defaults.
func (d *document) readInto(c *Config, data []byte) {
	root := d.parse(data)
	switch {
	case len(d.problems) > 0:
		return
	case root == nil:
		d.problems = append(d.problems, Problem{
			Source: d.file, Text: "is empty: expected at least version: 1 and a backend, such as backend: {http: \"localhost:8000\"}",
		})

		return
	}
	before := len(d.problems)
	d.decode(root, reflect.ValueOf(c).Elem(), "")
	if !d.explicit("version") && len(d.problems) == before {
		d.problems = append(d.problems, Problem{Source: d.file, Path: "version", Text: "is missing, expected version: 1"})
	}
}

// override applies the flags.
func (d *document) override(c *Config, overrides []Override) {
	for _, o := range overrides {
		d.origins[o.Path] = origin{source: o.Flag}
		if o.Set != nil {
			o.Set(c)

			continue
		}
		into, ok := lookup(reflect.ValueOf(c).Elem(), o.Path)
		if !ok {
			d.reportf(o.Path, "there is no such key")

			continue
		}
		if err := setText(into, o.Text); err != nil {
			d.reportf(o.Path, "%s", err)
		}
	}
}

// readFile reads a file whole, up to a bound.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, shortPathError("open file", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, shortPathError("read file", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read file: it has more than %s", units.Size(maxFile))
	}

	return data, nil
}

// shortPathError leaves out the path, which the problem names already.
func shortPathError(what string, err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}

	return fmt.Errorf("%s: %w", what, err)
}

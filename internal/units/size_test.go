package units_test

import (
	"regexp"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestC80Sizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       units.Size
		fails      string // what the error must say; empty: none
	}{
		{name: "zero needs no unit", text: "0"},
		{name: "zero with a unit", text: "0MiB"},
		{name: "bytes", text: "17B", want: 17},
		{name: "binary", text: "64KiB", want: 64 << 10},
		{name: "decimal", text: "64KB", want: 64000},
		{name: "tebibytes", text: "2TiB", want: 2 << 40},
		{name: "fraction that is whole bytes", text: "1.5GiB", want: 3 << 29},
		{name: "decimal fraction", text: "0.1MB", want: 100000},
		{name: "the largest", text: "9223372036854775807B", want: 1<<63 - 1},
		{name: "fraction that is not whole bytes", text: "0.1KiB", fails: `parse size "0.1KiB": is no whole number of bytes`},
		{name: "bare number", text: "64", fails: `parse size "64": the unit is missing, did you mean 64B, 64KiB or 64MiB?`},
		{name: "bare fraction", text: "1.5", fails: "did you mean 1.5KiB or 1.5MiB?"},
		{name: "Kubernetes form", text: "16Mi", fails: "did you mean 16MiB?"},
		{name: "letter", text: "16M", fails: "did you mean 16MiB?"},
		{name: "case", text: "16mib", fails: "did you mean 16MiB?"},
		{name: "SI case", text: "16kB", fails: "did you mean 16KB?"},
		{name: "space", text: "16 MiB", fails: "did you mean 16MiB?"},
		{name: "underscore", text: "1_000MiB", fails: "did you mean 1000MiB?"},
		{name: "negative", text: "-1MiB", fails: "must not be negative, did you mean 1MiB?"},
		{name: "overflow", text: "8388608TiB", fails: "is too large"},
		{name: "two units", text: "1MiB1B", fails: "expected a number with a unit"},
		{name: "nothing", text: "", fails: "expected a number with a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB or TB)"},
		{name: "a duration", text: "30s", fails: "expected a number with a unit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := units.ParseSize(test.text)
			checkParse(t, got, test.want, err, test.fails)
		})
	}
}

func TestSizePrintsTheShortestExactForm(t *testing.T) {
	t.Parallel()
	for s, want := range map[units.Size]string{
		0: "0", 1: "1B", 1000: "1KB", 1024: "1KiB", 64 << 10: "64KiB", 16 << 20: "16MiB", 1536: "1536B", 3 << 19: "1536KiB",
		1e6: "1MB", 1024000: "1024KB", 1 << 40: "1TiB", 5e12: "5TB",
	} {
		if got := s.String(); got != want {
			t.Errorf("%d prints %q, expected %q", int64(s), got, want)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, seed := range []string{"0", "1B", "1.5GiB", "64KB", "30", "-1MiB", "16Mi", "9223372036854775807B", "0.5KiB"} {
		f.Add(seed)
	}
	pattern := regexp.MustCompile(units.SizePattern)
	f.Fuzz(func(t *testing.T, text string) {
		var s units.Size
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		if s < 0 {
			t.Fatalf("%q reads as %d", text, int64(s))
		}
		if !pattern.MatchString(text) {
			t.Fatalf("%q is accepted, but not by the pattern of the schema", text)
		}
		printed, _ := s.MarshalText()
		var again units.Size
		if err := again.UnmarshalText(printed); err != nil || again != s {
			t.Fatalf("%q reads as %d, prints %q, reads again as %d, %v", text, int64(s), printed, int64(again), err)
		}
	})
}

package units_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestC80Durations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       time.Duration
		fails      string // what the error must say; empty: none
	}{
		{name: "zero needs no unit", text: "0"},
		{name: "zero with a unit", text: "0s"},
		{name: "fraction", text: "1.5s", want: 1500 * time.Millisecond},
		{name: "two units", text: "1h30m", want: 90 * time.Minute},
		{name: "microseconds", text: "3us", want: 3 * time.Microsecond},
		{name: "micro sign", text: "3µs", want: 3 * time.Microsecond},
		{name: "Greek letter", text: "3μs", want: 3 * time.Microsecond},
		{name: "the longest", text: "87600h", want: 87600 * time.Hour},
		{name: "bare number", text: "30", fails: `parse duration "30": the unit is missing, did you mean 30s?`},
		{name: "bare fraction", text: "1.5", fails: "did you mean 1.5s?"},
		{name: "bare exponent", text: "1e3", fails: "the unit is missing"},
		{name: "negative", text: "-1s", fails: "must not be negative, did you mean 1s?"},
		{name: "negative number", text: "-30", fails: "must not be negative, did you mean 30s?"},
		{name: "minus zero", text: "-0s", fails: "must not be negative"},
		{name: "days", text: "1d", fails: "expected a number with a unit (h, m, s, ms, us or ns), such as 30s or 1h30m, or 0, did you mean 24h?"},
		{name: "space", text: "30 s", fails: "did you mean 30s?"},
		{name: "underscore", text: "5_000ms", fails: "did you mean 5s?"},
		{name: "upper case", text: "30S", fails: "did you mean 30s?"},
		{name: "word", text: "2 minutes", fails: "did you mean 2m?"},
		{name: "comma", text: "1,5s", fails: "did you mean 1.5s?"},
		{name: "plus", text: "+5s", fails: "did you mean 5s?"},
		{name: "300 years", text: "2628000h", fails: "is too long, the longest is 87600h (ten years)"},
		{name: "overflow", text: "99999999999999999999h", fails: "is too long"},
		{name: "overflow of the sum", text: "87600h1ns", fails: "is too long"},
		{name: "300 years in days", text: "109500d", fails: "expected a number with a unit"},
		{name: "below a nanosecond", text: "1.5ns", fails: "is no whole number of nanoseconds"},
		{name: "nothing", text: "", fails: "expected a number with a unit"},
		{name: "only a unit", text: "s", fails: "expected a number with a unit"},
		{name: "no digit before the point", text: ".5s", fails: "expected a number with a unit"},
		{name: "no digit after the point", text: "5.s", fails: "expected a number with a unit"},
		{name: "word alone", text: "never", fails: "expected a number with a unit"},
		{name: "very long", text: strings.Repeat("1s", 1000), fails: "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := units.ParseDuration(test.text)
			checkParse(t, got.Std(), test.want, err, test.fails)
		})
	}
}

func TestDurationPrintsTheShortestForm(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 65 * time.Second: "1m5s",
		1500 * time.Millisecond: "1.5s", time.Hour + time.Second: "1h0m1s", time.Microsecond: "1µs", 10 * time.Second: "10s",
	} {
		if got := units.Duration(d).String(); got != want {
			t.Errorf("%d prints %q, expected %q", d, got, want)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"0", "1.5s", "1h30m", "30", "-1s", "5_000ms", "1d", "87600h", "0.000000001s", "3µs", "00001h"} {
		f.Add(seed)
	}
	pattern := regexp.MustCompile(units.DurationPattern)
	f.Fuzz(func(t *testing.T, text string) {
		var d units.Duration
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		if d < 0 || d > units.MaxDuration {
			t.Fatalf("%q reads as %d", text, d)
		}
		if !pattern.MatchString(text) {
			t.Fatalf("%q is accepted, but not by the pattern of the schema", text)
		}
		printed, _ := d.MarshalText()
		var again units.Duration
		if err := again.UnmarshalText(printed); err != nil || again != d {
			t.Fatalf("%q reads as %d, prints %q, reads again as %d, %v", text, d, printed, again, err)
		}
	})
}

// checkParse compares the outcome of a parse with what a table row expects.
func checkParse[T comparable](t *testing.T, got, want T, err error, fails string) {
	t.Helper()
	switch {
	case fails == "" && err != nil:
		t.Errorf("refused: %v", err)
	case fails == "" && got != want:
		t.Errorf("got %v, expected %v", got, want)
	case fails != "" && err == nil:
		t.Errorf("accepted as %v, expected an error that says %q", got, fails)
	case fails != "" && !strings.Contains(err.Error(), fails):
		t.Errorf("got error %q, expected one that says %q", err, fails)
	}
}

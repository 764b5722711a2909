package units

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time span that is written with its unit: "30s", "1h30m", "500ms". The only number that needs no unit is 0.
// It is never negative and at most [MaxDuration].
type Duration time.Duration

// MaxDuration is the longest that can be written: ten years. Beyond it stand typing errors, and sums of a few such spans still fit an int64.
const MaxDuration = Duration(87600 * time.Hour)

// DurationPattern is the regular expression, in the dialect of JSON schema, of every text that may be a duration.
const DurationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h))+)$`

// durationForm is what an error says is accepted.
const durationForm = "a number with a unit (h, m, s, ms, us or ns), such as 30s or 1h30m, or 0"

// durationUnits hold what is accepted. There is no day: it is not always 24 hours long, and "1d" is 24h.
func durationUnits() []unit {
	return []unit{
		{"h", int64(time.Hour)},
		{"m", int64(time.Minute)},
		{"s", int64(time.Second)},
		{"ms", int64(time.Millisecond)},
		{"us", int64(time.Microsecond)},
		{"µs", int64(time.Microsecond)}, // U+00B5, the micro sign
		{"μs", int64(time.Microsecond)}, // U+03BC, the Greek letter
		{"ns", 1},
	}
}

// ParseDuration reads a duration as a user writes it. What it cannot represent exactly it refuses, with the form that was probably meant.
func ParseDuration(text string) (Duration, error) {
	d, reason := parseDuration(text)
	if reason == "" {
		return d, nil
	}
	if hint := durationHint(text); hint != "" {
		return 0, fmt.Errorf("parse duration %q: %s, did you mean %s?", shorten(text), reason, hint)
	}

	return 0, fmt.Errorf("parse duration %q: %s", shorten(text), reason)
}

// parseDuration returns the duration, or why there is none.
func parseDuration(text string) (d Duration, reason string) {
	switch {
	case text == "0":
		return 0, ""
	case len(text) > maxText:
		return 0, "expected " + durationForm
	case strings.HasPrefix(text, "-"):
		return 0, "must not be negative"
	case isNumber(text):
		return 0, "the unit is missing"
	}
	amounts, ok := split(text)
	if !ok {
		return 0, "expected " + durationForm
	}
	var sum int64
	for _, a := range amounts {
		worth := worthOf(a.word, durationUnits())
		if worth == 0 {
			return 0, "expected " + durationForm
		}
		value, fault := scale(a.number, worth)
		switch {
		case fault == inexact:
			return 0, "is no whole number of nanoseconds"
		case fault != fine || value > int64(MaxDuration)-sum:
			return 0, "is too long, the longest is " + MaxDuration.String() + " (ten years)"
		}
		sum += value
	}

	return Duration(sum), ""
}

func worthOf(name string, units []unit) int64 {
	for _, u := range units {
		if u.name == name {
			return u.worth
		}
	}

	return 0
}

// durationHint returns the accepted form of what was probably meant, or "".
func durationHint(text string) string {
	if len(text) > maxText {
		return ""
	}
	if isNumber(text) {
		text = strings.TrimLeft(text, "+-") + "s"
	}
	amounts, ok := split(strings.ToLower(strings.TrimLeft(tidy(text), "+-")))
	if !ok {
		return ""
	}
	var guess Duration
	for _, a := range amounts {
		unit, times := durationWord(a.word)
		value, reason := parseDuration(a.number + unit)
		if reason != "" || value > MaxDuration/Duration(times) {
			return ""
		}
		guess += value * Duration(times)
	}
	if guess > MaxDuration || guess == 0 {
		return ""
	}

	return guess.String()
}

// durationWord returns the unit that a word from another notation stands for, and how many of it.
func durationWord(word string) (unit string, times int) {
	switch word {
	case "d", "day", "days":
		return "h", 24
	case "w", "week", "weeks":
		return "h", 7 * 24
	case "hr", "hrs", "hour", "hours":
		return "h", 1
	case "min", "mins", "minute", "minutes":
		return "m", 1
	case "sec", "secs", "second", "seconds":
		return "s", 1
	case "msec", "millis", "millisecond", "milliseconds":
		return "ms", 1
	default:
		return word, 1
	}
}

// Std returns d as a [time.Duration].
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the shortest form that reads back as d: "10m" and not "10m0s".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}

	return text
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err == nil {
		*d = parsed
	}

	return err
}

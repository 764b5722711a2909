package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes that is written with its unit: "16MiB", "64KiB". The only number that needs no unit is 0. It is never negative.
type Size int64

// SizePattern is the regular expression, in the dialect of JSON schema, of every text that may be a size.
const SizePattern = `^(0|[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB))$`

// sizeForm is what an error says is accepted.
const sizeForm = "a number with a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB or TB), such as 64KiB or 1.5GB, or 0"

// sizeUnits hold what is accepted, in the order in which [Size.String] prefers them among forms of the same length.
func sizeUnits() []unit {
	return []unit{
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"KB", 1e3},
		{"B", 1},
	}
}

// ParseSize reads a size as a user writes it. Fractions are accepted where they make whole bytes.
func ParseSize(text string) (Size, error) {
	s, reason := parseSize(text)
	if reason == "" {
		return s, nil
	}
	if hint := sizeHint(text); hint != "" {
		return 0, fmt.Errorf("parse size %q: %s, did you mean %s?", shorten(text), reason, hint)
	}

	return 0, fmt.Errorf("parse size %q: %s", shorten(text), reason)
}

// parseSize returns the size, or why there is none.
func parseSize(text string) (s Size, reason string) {
	switch {
	case text == "0":
		return 0, ""
	case len(text) > maxText:
		return 0, "expected " + sizeForm
	case strings.HasPrefix(text, "-"):
		return 0, "must not be negative"
	case isNumber(text):
		return 0, "the unit is missing"
	}
	amounts, ok := split(text)
	if !ok || len(amounts) != 1 {
		return 0, "expected " + sizeForm
	}
	worth := worthOf(amounts[0].word, sizeUnits())
	if worth == 0 {
		return 0, "expected " + sizeForm
	}
	value, fault := scale(amounts[0].number, worth)
	switch fault {
	case fine:
		return Size(value), ""
	case inexact:
		return 0, "is no whole number of bytes"
	case tooLarge:
	}

	return 0, "is too large"
}

// sizeHint returns the accepted form of what was probably meant, or "".
func sizeHint(text string) string {
	if len(text) > maxText {
		return ""
	}
	number, word := cutNumber(strings.TrimLeft(tidy(text), "+-"))
	if number == "" {
		return ""
	}
	switch word = strings.ToLower(word); word {
	case "":
		if _, reason := parseSize(number + "B"); reason == "" {
			return number + "B, " + number + "KiB or " + number + "MiB"
		}

		return number + "KiB or " + number + "MiB"
	case "b", "byte", "bytes":
		word = "b"
	case "k", "ki", "m", "mi", "g", "gi", "t", "ti": // as Kubernetes and JVMs write them
		word = word[:1] + "ib"
	}
	for _, u := range sizeUnits() {
		if strings.EqualFold(u.name, word) {
			if _, reason := parseSize(number + u.name); reason == "" {
				return number + u.name
			}
		}
	}

	return ""
}

// String returns the shortest form that reads back as s exactly, without a fraction: "64KiB", "1536B", "10MB", "0".
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	shortest := ""
	for _, u := range sizeUnits() {
		if int64(s)%u.worth != 0 {
			continue
		}
		if text := strconv.FormatInt(int64(s)/u.worth, 10) + u.name; shortest == "" || len(text) < len(shortest) {
			shortest = text
		}
	}

	return shortest
}

// MarshalText implements [encoding.TextMarshaler].
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error {
	parsed, err := ParseSize(string(text))
	if err == nil {
		*s = parsed
	}

	return err
}

package units

import "strconv"

// Size is a number of bytes that is written with its unit: "16MiB", "64KiB". The only number that needs no unit is 0.
type Size int64

// MarshalText implements [encoding.TextMarshaler].
func (s Size) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*s = Size(n)

	return err
}

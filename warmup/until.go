package warmup

import (
	"fmt"
	"strconv"
)

// Until is when an infer step stops: 0 means once converged, n > 0 means after n requests per shape.
type Until int

// String returns the word used in the configuration.
func (u Until) String() string {
	if u == 0 {
		return "converged"
	}

	return strconv.Itoa(int(u))
}

// MarshalText implements [encoding.TextMarshaler].
func (u Until) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *Until) UnmarshalText(text []byte) error {
	if string(text) == "converged" {
		*u = 0

		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("parse until %q: expected converged or a number of requests, at least 1", text)
	}
	*u = Until(n)

	return nil
}

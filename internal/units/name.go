package units

import (
	"fmt"
	"strings"
)

// ParseName returns the one of values whose String is text; what says, in an error, which thing was to be named.
func ParseName[T fmt.Stringer](what string, text []byte, values []T) (T, error) {
	names := make([]string, 0, len(values))
	for _, value := range values {
		if value.String() == string(text) {
			return value, nil
		}
		names = append(names, value.String())
	}
	var none T

	return none, fmt.Errorf("parse %s %q: expected one of %s", what, text, strings.Join(names, ", "))
}

package units

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names holds the word for each value of an enum. It is all that an enum's methods need, so that a value and its word are written once, side by side;
// the linter refuses a table in which a constant of the enum is missing.
type Names[T ~int] map[T]string

// Values returns every value that has a word, in order.
func (n Names[T]) Values() []T { return slices.Sorted(maps.Keys(n)) }

// Of returns the word for value, or what Go would write for one that does not exist: State(7).
func (n Names[T]) Of(value T) string {
	if name, ok := n[value]; ok {
		return name
	}
	typ := fmt.Sprintf("%T", value)

	return fmt.Sprintf("%s(%d)", typ[strings.LastIndexByte(typ, '.')+1:], int(value))
}

// Parse stores the value whose word is text, and stores nothing if there is none; what says, in the error, which thing was to be named.
func (n Names[T]) Parse(what string, text []byte, to *T) error {
	words := make([]string, 0, len(n))
	for _, value := range n.Values() {
		if n[value] == string(text) {
			*to = value

			return nil
		}
		words = append(words, n[value])
	}

	return fmt.Errorf("parse %s %q: expected one of %s", what, text, strings.Join(words, ", "))
}

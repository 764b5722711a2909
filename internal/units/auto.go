package units

import (
	"encoding"
	"fmt"
	"strconv"
)

// Auto is a value that a user may leave to Pilotlight by writing "auto". The zero Auto is "auto".
type Auto[T any] struct {
	// Set is true when the user wrote a value, or once "auto" has been resolved.
	Set bool
	// Value is meaningful only when Set is true.
	Value T
}

// AutoList is a list that a user may leave to Pilotlight by writing "auto". Nil is "auto"; a list of no items is not nil, and means that there are none.
type AutoList []string

// Of returns an Auto that is set to v.
func Of[T any](v T) Auto[T] { return Auto[T]{Set: true, Value: v} }

// Or returns the value, or fallback when it was left to us.
func (a Auto[T]) Or(fallback T) T {
	if a.Set {
		return a.Value
	}

	return fallback
}

// MarshalText implements [encoding.TextMarshaler].
func (a Auto[T]) MarshalText() ([]byte, error) {
	if !a.Set {
		return []byte("auto"), nil
	}
	switch value := any(a.Value).(type) {
	case encoding.TextMarshaler:
		return value.MarshalText()
	default:
		return fmt.Append(nil, value), nil
	}
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts "auto" and whatever T accepts.
func (a *Auto[T]) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*a = Auto[T]{}

		return nil
	}
	parsed := Auto[T]{Set: true}
	switch value := any(&parsed.Value).(type) {
	case encoding.TextUnmarshaler:
		if err := value.UnmarshalText(text); err != nil {
			return err
		}
	case *string:
		*value = string(text)
	case *int:
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("parse number %q: expected a whole number or auto", text)
		}
		*value = n
	default:
		return fmt.Errorf("parse %q: %T cannot be written as text", text, value)
	}
	*a = parsed

	return nil
}

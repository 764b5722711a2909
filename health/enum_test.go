package health

import (
	"encoding"
	"fmt"
	"regexp"
	"testing"
)

type enum interface {
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}

// walk checks that every value of an enum has a word of its own, that the list is complete, and that values which do not exist say so.
func walk[T enum](t *testing.T, values []T, at func(int) T) {
	t.Helper()
	t.Run(fmt.Sprintf("%T", values[0]), func(t *testing.T) {
		t.Helper()
		word := regexp.MustCompile(`^[a-z]+([ -][a-z]+)*$`)
		seen := map[string]bool{}
		for i, value := range values {
			if value != at(i) {
				t.Errorf("value %d of the list is %v, expected %v", i, value, at(i))
			}
			text, err := value.MarshalText()
			if err != nil || string(text) != value.String() {
				t.Errorf("%v is marshalled as %q, %v", value, text, err)
			}
			if !word.MatchString(value.String()) || seen[value.String()] {
				t.Errorf("value %d is called %q: expected a word of its own", i, value)
			}
			seen[value.String()] = true
			read := at(-1)
			parser, ok := any(&read).(encoding.TextUnmarshaler)
			if !ok {
				continue // is only written
			}
			if err := parser.UnmarshalText(text); err != nil || read != value {
				t.Errorf("%q is read as %v, %v", text, read, err)
			}
			if err := parser.UnmarshalText([]byte("nonsense")); err == nil || read != value {
				t.Errorf("nonsense is read as %v, %v", read, err)
			}
		}
		if beyond := at(len(values)).String(); word.MatchString(beyond) {
			t.Errorf("there is a value %q beyond the list", beyond)
		}
	})
}

func TestEnumsAreWhole(t *testing.T) {
	walk(t, StateValues(), func(i int) State { return State(i) })
	walk(t, SeverityValues(), func(i int) Severity { return Severity(i) })
	walk(t, EffectValues(), func(i int) Effect { return Effect(i) })
	walk(t, WatchKindValues(), func(i int) WatchKind { return WatchKind(i) })
	walk(t, ActiveCheckValues(), func(i int) ActiveCheck { return ActiveCheck(i) })
	walk(t, ReadyWhenValues(), func(i int) ReadyWhen { return ReadyWhen(i) })
	walk(t, ReadyAfterValues(), func(i int) ReadyAfter { return ReadyAfter(i) })
	walk(t, ReactionValues(), func(i int) Reaction { return Reaction(i) })
	walk(t, RestartBackendValues(), func(i int) RestartBackend { return RestartBackend(i) })
}

package units_test

import (
	"slices"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Colour is no iota, so that order and gaps show.
type Colour int

const (
	Red   Colour = -4
	Green Colour = 0
	Blue  Colour = 8
)

var colourNames = units.Names[Colour]{Blue: "blue", Red: "red", Green: "green"}

func TestNamesPairValuesAndWords(t *testing.T) {
	t.Parallel()
	if values := colourNames.Values(); !slices.Equal(values, []Colour{Red, Green, Blue}) {
		t.Errorf("the values are %v, expected them in order", values)
	}
	for value, want := range map[Colour]string{Red: "red", Green: "green", Blue: "blue", 7: "Colour(7)", -1: "Colour(-1)"} {
		if got := colourNames.Of(value); got != want {
			t.Errorf("%d is called %q, expected %q", int(value), got, want)
		}
	}
	for _, value := range colourNames.Values() {
		read := Colour(7)
		if err := colourNames.Parse("colour", []byte(colourNames.Of(value)), &read); err != nil || read != value {
			t.Errorf("%q is read as %d, %v", colourNames.Of(value), int(read), err)
		}
	}
}

func TestNamesRefuseOtherWords(t *testing.T) {
	t.Parallel()
	read := Blue
	err := colourNames.Parse("colour", []byte("grey"), &read)
	if want := `parse colour "grey": expected one of red, green, blue`; err == nil || err.Error() != want {
		t.Errorf("grey: %v, expected %s", err, want)
	}
	if read != Blue {
		t.Errorf("a word that is refused changed the value to %d", int(read))
	}
}

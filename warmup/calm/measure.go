package calm

import "fmt"

// scale is how a measure is written.
type scale int

const (
	// share is from 0 to 1.
	share scale = iota
	// percent is from 0 to 100.
	percent
)

// measure is one thing that was measured.
type measure struct {
	name  string
	value float64
	scale scale
}

// over says whether a measure is at its bound. Once over, it has to fall by a tenth below it, so that work is not begun and stopped by turns.
func (m measure) over(bound float64, already bool) bool {
	if already {
		bound *= hysteresis
	}

	return bound > 0 && m.value >= bound
}

// hysteresis is the share of a bound below which a measure must fall for the pressure to be over.
const hysteresis = 0.9

// says tells what is too high.
func (m measure) says(bound float64) string {
	if m.scale == share {
		return fmt.Sprintf("%s %.0f %% in use, calm is below %.0f %%", m.name, 100*m.value, 100*bound)
	}

	return fmt.Sprintf("%s %.1f %%, calm is below %.1f %%", m.name, m.value, bound)
}

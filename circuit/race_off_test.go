//go:build !race

package circuit

const raceDetector = false

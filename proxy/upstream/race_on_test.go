//go:build race

package upstream

// raceDetector says whether it is on.
const raceDetector = true

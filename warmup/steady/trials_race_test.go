//go:build race

package steady_test

// trials is how many series each case is simulated with: the race detector makes them ten times as dear, and the bounds widen with fewer.
const trials = 100

//go:build !race

package steady_test

// trials is how many series each case is simulated with.
const trials = 400

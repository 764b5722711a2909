// Package steady holds the Detector that decides whether a series of latencies has converged.
// It refuses to know what was measured and what the answer is used for.
package steady

// Package warmup holds the plan of steps that makes a backend warm and the Runner that executes it and reports progress.
// It refuses to know about users' requests, readiness and the gate.
package warmup

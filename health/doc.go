// Package health holds the Machine that owns the state of the pod and of each model, and the Conditions that explain it.
// It refuses to know how requests are forwarded and what a warm-up consists of.
package health

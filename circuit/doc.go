// Package circuit holds the Breaker that decides whether the backend may be called and learns from each verdict.
// It refuses to know what a request is and what happens to one that may not pass.
package circuit

// Package backend holds one Dialect per server type: how its readiness is asked, its models found and a cheap inference made.
// It refuses to know when, how often or why anybody asks.
package backend

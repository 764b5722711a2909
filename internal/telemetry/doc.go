// Package telemetry holds what Pilotlight says about itself: the catalogue of its metrics, and the ways by which metrics and traces leave.
// It refuses to know the rooms whose facts it tells; whoever wires them hands over functions and numbers.
package telemetry

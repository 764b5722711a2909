// Package status holds what an operator looks at: the status document and the loopback admin endpoints that serve it.
// It refuses to change anything by itself; what acts is handed to it as functions.
package status

// Package memnet holds an in-memory network for tests: a listener, its dialer and buffered connections that close as TCP's do.
// It refuses to know what is spoken over it.
package memnet

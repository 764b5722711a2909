// Package memnet holds an in-memory network for tests: a listener and its dialer over net.Pipe.
// It refuses to know what is spoken over it.
package memnet

// Package proxy holds the data path: each request is accepted, held while the gate holds, and forwarded to the backend.
// It refuses to know how a backend is warmed and why it is, or is not, ready.
package proxy

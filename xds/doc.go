// Package xds holds the Publisher, which tells Envoy and gRPC clients over xDS where our data port is and whether to use it.
// It refuses to know how a state comes about, and what happens to a request once it arrives.
package xds

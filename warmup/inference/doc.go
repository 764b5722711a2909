// Package inference holds the messages and the service of the Open Inference Protocol over gRPC, generated from
// inference.proto. It refuses to know who serves it or asks.
package inference

//go:generate ./generate.sh

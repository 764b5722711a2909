// Package onnx holds the worker: an Open Inference Protocol server over ONNX Runtime, meant to run in a process of its own.
// It refuses to know about the proxy in front of it.
//
// HTTP/1.1, HTTP/2 without TLS and gRPC share one port. The server is live at once; it is ready, and so is each model, when
// the model is loaded: until then the ready paths answer 503 and inference is refused with 503 or UNAVAILABLE. With
// [Settings.Lazy] it says ready at once and loads a model at its first inference, as several servers do.
//
// Without cgo, or with the build tag noonnx, the package builds and [NewServer] says that ONNX Runtime is not in this build.
package onnx

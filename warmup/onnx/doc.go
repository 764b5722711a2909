// Package onnx holds the worker: an Open Inference Protocol server over ONNX Runtime, meant to run in a process of its own.
// It refuses to know about the proxy in front of it.
package onnx

//go:build !cgo || noonnx

package onnx

import (
	"context"
	"errors"
)

// errAbsent says that ONNX Runtime cannot be used by this executable, whatever is installed.
var errAbsent = errors.New("ONNX Runtime is not in this build: it was built without cgo or with the tag noonnx")

type session struct{}

func openLibrary([]string) (path, version string, err error) { return "", "", errAbsent }

func newSession(string, signature, Settings) (*session, error) { return nil, errAbsent }

func (*session) run(context.Context, []tensor) ([]tensor, error) { return nil, errAbsent }

func (*session) close() error { return nil }

//go:build !linux

package pages

import (
	"errors"
	"os"
)

// errNotHere means that this kernel is not asked: files are read instead, and nobody says what is in the page cache.
var errNotHere = errors.New("only on Linux")

func ask(*os.File, Range) error { return errNotHere }

func look(*os.File, Range) residency { return residency{} }

func deviceOf(os.FileInfo) (string, error) { return "", errNotHere }

package onnx

import (
	"fmt"
	"math"
)

// Datatype is the type of a tensor's elements. The numbers are ONNX's own.
type Datatype int

// The datatypes that the worker carries. ONNX has more: the binding cannot return FP16 and BF16 tensors.
const (
	FP32   Datatype = 1
	Uint8  Datatype = 2
	Int8   Datatype = 3
	Uint16 Datatype = 4
	Int16  Datatype = 5
	Int32  Datatype = 6
	Int64  Datatype = 7
	Bytes  Datatype = 8
	Bool   Datatype = 9
	FP64   Datatype = 11
	Uint32 Datatype = 12
	Uint64 Datatype = 13
)

// DatatypeValues lists every Datatype.
func DatatypeValues() []Datatype {
	return []Datatype{FP32, Uint8, Int8, Uint16, Int16, Int32, Int64, Bytes, Bool, FP64, Uint32, Uint64}
}

// String returns the protocol's name.
func (d Datatype) String() string {
	if codec, known := codecs[d]; known {
		return codec.name
	}
	switch int(d) {
	case 10:
		return "FP16"
	case 16:
		return "BF16"
	default:
		return fmt.Sprintf("ONNX type %d", int(d))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (d Datatype) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// tensor is a named value. values is a slice of the Go type of its datatype ([]string for BYTES), row by row.
type tensor struct {
	name     string
	datatype Datatype
	shape    []int64
	values   any
}

// length returns the number of elements in a tensor's values.
func length(values any) int {
	switch v := values.(type) {
	case []bool:
		return len(v)
	case []int8:
		return len(v)
	case []int16:
		return len(v)
	case []int32:
		return len(v)
	case []int64:
		return len(v)
	case []uint8:
		return len(v)
	case []uint16:
		return len(v)
	case []uint32:
		return len(v)
	case []uint64:
		return len(v)
	case []float32:
		return len(v)
	case []float64:
		return len(v)
	case []string:
		return len(v)
	default:
		return 0
	}
}

// maxRank is more than any operator takes.
const maxRank = 32

// elements returns how many elements a shape has. The error does not name the tensor.
func elements(shape []int64) (int64, error) {
	if len(shape) > maxRank {
		return 0, fmt.Errorf("shape has %d dimensions, expected at most %d", len(shape), maxRank)
	}
	count := int64(1)
	for i, dim := range shape {
		if dim < 1 {
			return 0, fmt.Errorf("shape %v: dimension %d: expected at least 1, got %d", shape, i, dim)
		}
		if count > math.MaxInt64/dim {
			return 0, fmt.Errorf("shape %v has more elements than can be counted", shape)
		}
		count *= dim
	}

	return count, nil
}

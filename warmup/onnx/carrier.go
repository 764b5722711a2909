//go:build cgo && !noonnx

package onnx

import (
	"fmt"

	ort "github.com/yalue/onnxruntime_go"
)

// carrier carries the elements of one datatype to ONNX Runtime and back.
type carrier struct {
	give   func(tensor) (ort.Value, error)
	take   func(ort.Value) (any, error)
	scalar func() (ort.Value, error)
}

// carriers has one carrier for each Datatype.
var carriers = map[Datatype]carrier{
	FP32: carrierOf[float32](), FP64: carrierOf[float64](), Bool: carrierOf[bool](), Bytes: textCarrier(),
	Int8: carrierOf[int8](), Int16: carrierOf[int16](), Int32: carrierOf[int32](), Int64: carrierOf[int64](),
	Uint8: carrierOf[uint8](), Uint16: carrierOf[uint16](), Uint32: carrierOf[uint32](), Uint64: carrierOf[uint64](),
}

func carrierOf[T ort.TensorData]() carrier {
	return carrier{
		give: func(one tensor) (ort.Value, error) {
			values, ok := one.values.([]T)
			if !ok {
				return nil, fmt.Errorf("expected %s, got %T", one.datatype, one.values)
			}
			if len(one.shape) == 0 {
				return ort.NewScalar(values[0])
			}

			return ort.NewTensor(one.shape, values)
		},
		take: func(value ort.Value) (any, error) {
			switch value := value.(type) {
			case *ort.Tensor[T]:
				return value.GetData(), nil
			case *ort.Scalar[T]:
				return []T{value.GetData()}, nil
			default:
				return nil, fmt.Errorf("got a %T", value)
			}
		},
		scalar: func() (ort.Value, error) { return ort.NewEmptyScalar[T]() },
	}
}

func textCarrier() carrier {
	return carrier{
		give: func(one tensor) (ort.Value, error) {
			values, ok := one.values.([]string)
			if !ok {
				return nil, fmt.Errorf("expected %s, got %T", one.datatype, one.values)
			}
			value, err := ort.NewStringTensor(one.shape)
			if err != nil {
				return nil, err
			}
			if err := value.SetContents(values); err != nil {
				value.Destroy() //nolint:errcheck,gosec // it returns nil

				return nil, err
			}

			return value, nil
		},
		take: func(value ort.Value) (any, error) {
			text, ok := value.(*ort.StringTensor)
			if !ok {
				return nil, fmt.Errorf("got a %T", value)
			}

			return text.GetContents()
		},
		scalar: func() (ort.Value, error) { return nil, fmt.Errorf("%s scalars cannot be carried", Bytes) },
	}
}

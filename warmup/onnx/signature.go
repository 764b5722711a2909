package onnx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// signature is what a model takes and gives. It is read from the file's head without its weights: ONNX Runtime would have
// to load the whole model to say it, and then forgets the names of the dimensions.
type signature struct {
	inputs, outputs []tensorInfo
}

// tensorInfo describes an input or output.
type tensorInfo struct {
	name     string
	datatype Datatype
	// ranked is false when the model leaves the number of dimensions open.
	ranked bool
	// shape holds -1 for a dimension of any size.
	shape []int64
	// names holds the names of the dimensions, empty where there is none. Dimensions of one name have one size.
	names []string
}

// readSignature reads the signature of an ONNX file. It refuses models that the binding cannot run.
func readSignature(path string) (signature, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the user's own
	if err != nil {
		return signature{}, fmt.Errorf("read model: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return signature{}, fmt.Errorf("read model: %w", err)
	}
	if !info.Mode().IsRegular() {
		return signature{}, fmt.Errorf("read model %s: expected a file, got %s", path, info.Mode().Type())
	}
	found, err := parseSignature(file, info.Size())
	if err != nil {
		return signature{}, fmt.Errorf("read model %s: %w", path, err)
	}

	return found, nil
}

// Field numbers of onnx.proto.
const (
	modelGraph       = 7
	graphInitializer = 5
	graphInput       = 11
	graphOutput      = 12
	tensorName       = 8
)

func parseSignature(file io.ReaderAt, size int64) (signature, error) {
	head := head{file: file, weights: map[string]bool{}}
	graphs := 0
	err := walk(file, 0, size, func(number protowire.Number, start, end int64) error {
		if number != modelGraph {
			return nil
		}
		graphs++

		return walk(file, start, end, head.graphField)
	})
	if err == nil && graphs != 1 {
		err = errNotONNX
	}
	if err != nil {
		return signature{}, err
	}
	// Old models list their weights among the inputs.
	head.inputs = slices.DeleteFunc(head.inputs, func(info tensorInfo) bool { return head.weights[info.name] })

	return head.signature, head.runnable()
}

// head is what is known of a model while its file is read.
type head struct {
	signature

	file    io.ReaderAt
	weights map[string]bool
}

// graphField reads a field of the graph.
func (h *head) graphField(number protowire.Number, start, end int64) error {
	if number == graphInitializer {
		return walk(h.file, start, end, func(number protowire.Number, start, end int64) error {
			if number != tensorName {
				return nil
			}
			name, err := slurp(h.file, start, end)
			h.weights[string(name)] = true

			return err
		})
	}
	if number != graphInput && number != graphOutput {
		return nil
	}
	content, err := slurp(h.file, start, end)
	if err != nil {
		return err
	}
	info, err := parseValue(content)
	if err != nil {
		return err
	}
	if number == graphInput {
		h.inputs = append(h.inputs, info)
	} else {
		h.outputs = append(h.outputs, info)
	}

	return nil
}

var errNotONNX = errors.New("not an ONNX model")

// runnable says what keeps the binding from running a model.
func (s signature) runnable() error {
	if len(s.inputs) == 0 || len(s.outputs) == 0 {
		return fmt.Errorf("the model has %d inputs and %d outputs, expected at least one of each", len(s.inputs), len(s.outputs))
	}
	for i, info := range slices.Concat(s.inputs, s.outputs) {
		direction := "input"
		if i >= len(s.inputs) {
			direction = "output"
		}
		if _, known := codecs[info.datatype]; !known {
			return fmt.Errorf("%s %q is %s, which cannot be carried", direction, info.name, info.datatype)
		}
		if info.datatype == Bytes && info.ranked && len(info.shape) == 0 {
			return fmt.Errorf("%s %q is a BYTES scalar, which cannot be carried", direction, info.name)
		}
	}

	return nil
}

// parseValue reads a ValueInfoProto.
func parseValue(content []byte) (tensorInfo, error) {
	var info tensorInfo
	kind := errors.New("has no type")
	err := fields(content, func(number protowire.Number, value []byte, _ uint64) error {
		switch int(number) {
		case 1:
			info.name = string(value)
		case 2:
			kind = fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				if number == 6 { // a string of no interest
					return nil
				}
				if number != 1 {
					return errors.New("is not a tensor, which the protocol cannot carry")
				}

				return parseTensorType(value, &info)
			})
		}

		return nil
	})
	if err != nil {
		return info, err
	}
	if kind != nil {
		return info, fmt.Errorf("%q %w", info.name, kind)
	}

	return info, nil
}

// parseTensorType reads a TypeProto.Tensor.
func parseTensorType(content []byte, info *tensorInfo) error {
	return fields(content, func(number protowire.Number, value []byte, num uint64) error {
		switch int(number) {
		case 1:
			info.datatype = Datatype(num) //nolint:gosec // whatever it is, it is known or refused
		case 2:
			info.ranked = true

			return fields(value, func(_ protowire.Number, value []byte, _ uint64) error {
				size, name := int64(-1), ""
				err := fields(value, func(number protowire.Number, value []byte, num uint64) error {
					switch int(number) {
					case 1:
						if size = int64(num); size < 0 { //nolint:gosec // negative sizes stand for unknown ones in some exporters
							size = -1
						}
					case 2:
						name = string(value)
					}

					return nil
				})
				info.shape, info.names = append(info.shape, size), append(info.names, name)

				return err
			})
		}

		return nil
	})
}

// fields calls each for the fields of a small message: with the bytes of a length-delimited one, the number of a varint.
func fields(content []byte, each func(number protowire.Number, value []byte, num uint64) error) error {
	for len(content) > 0 {
		number, kind, head := protowire.ConsumeTag(content)
		if head < 0 {
			return errNotONNX
		}
		length := protowire.ConsumeFieldValue(number, kind, content[head:])
		if length < 0 {
			return errNotONNX
		}
		var value []byte
		var num uint64
		switch kind {
		case protowire.BytesType:
			value, _ = protowire.ConsumeBytes(content[head:])
		case protowire.VarintType:
			num, _ = protowire.ConsumeVarint(content[head:])
		case protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType:
		}
		if err := each(number, value, num); err != nil {
			return err
		}
		content = content[head+length:]
	}

	return nil
}

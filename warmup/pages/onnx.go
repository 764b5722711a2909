package pages

import (
	"errors"
	"io"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// maxFields bounds the fields that are looked at in a model, and so the time that a file of nothing but fields of 2 bytes takes.
	maxFields = 1 << 20
	// maxLocation bounds the name of a file of external data and what is written about it, in bytes.
	maxLocation = 4096
)

// Field numbers of onnx.proto.
const (
	modelGraph            = 7
	graphNode             = 1
	graphInitializer      = 5
	graphSparse           = 15
	sparseValues          = 1
	sparseIndices         = 2
	nodeAttribute         = 5
	attributeTensor       = 5
	attributeGraph        = 6
	attributeTensors      = 10
	attributeGraphs       = 11
	tensorExternal        = 13
	entryKey, entryValue  = 1, 2
	maxGraphs             = 8 // graphs in graphs
	protobufHead          = 2 * 10
	externalLengthUnknown = -1
)

// external is a tensor's data in another file.
type external struct {
	// location is relative to the model's folder.
	location string
	// part is where it is in the file; its length is -1 when the model does not say it: to the end.
	part Range
}

// readONNX returns where the model's external data is, in the order of the tensors. Only heads of fields are read, so that a file of gigabytes costs a few pages.
func readONNX(file io.ReaderAt, size int64) ([]external, error) {
	model := &onnxReader{file: file, left: maxFields}
	err := model.walk(0, size, func(number protowire.Number, start, end int64) error {
		if number == modelGraph {
			return model.graph(start, end, 0)
		}

		return nil
	})

	return model.found, err
}

type onnxReader struct {
	file  io.ReaderAt
	left  int // fields that may still be looked at
	found []external
}

// graph looks at the tensors of a graph, and at those of the graphs in its nodes.
func (o *onnxReader) graph(start, end int64, depth int) error {
	if depth == maxGraphs {
		return FormatONNX.fault(start, "graphs in graphs, more than %d deep", maxGraphs)
	}
	attribute := func(number protowire.Number, start, end int64) error {
		switch int(number) {
		case attributeTensor, attributeTensors:
			return o.tensor(start, end)
		case attributeGraph, attributeGraphs:
			return o.graph(start, end, depth+1)
		default:
			return nil
		}
	}

	return o.walk(start, end, func(number protowire.Number, start, end int64) error {
		switch int(number) {
		case graphInitializer:
			return o.tensor(start, end)
		case graphSparse:
			return o.walk(start, end, func(number protowire.Number, start, end int64) error {
				if number == sparseValues || number == sparseIndices {
					return o.tensor(start, end)
				}

				return nil
			})
		case graphNode:
			return o.walk(start, end, func(number protowire.Number, start, end int64) error {
				if number != nodeAttribute {
					return nil
				}

				return o.walk(start, end, attribute)
			})
		default:
			return nil
		}
	})
}

// tensor notes where the data of a tensor is, if it is elsewhere.
func (o *onnxReader) tensor(start, end int64) error {
	found := external{part: Range{Length: externalLengthUnknown}}
	place := start
	err := o.walk(start, end, func(number protowire.Number, start, end int64) error {
		if number != tensorExternal {
			return nil
		}
		place = start
		var key, value string
		err := o.walk(start, end, func(number protowire.Number, start, end int64) (err error) {
			switch int(number) {
			case entryKey:
				key, err = o.text(start, end)
			case entryValue:
				value, err = o.text(start, end)
			}

			return err
		})
		if err != nil {
			return err
		}

		return found.set(key, value, start)
	})
	if err == nil && found.location != "" {
		if found.part.Offset > 1<<62 || found.part.Length > 1<<62 {
			return FormatONNX.fault(place, "%d bytes at %d of %q", found.part.Length, found.part.Offset, found.location)
		}
		o.found = append(o.found, found)
	}

	return err
}

// set takes one entry of what is written about external data.
func (e *external) set(key, value string, place int64) (err error) {
	var number uint64
	switch key {
	case "location":
		e.location = value

		return nil
	case "offset", "length":
		number, err = strconv.ParseUint(value, 10, 63)
	default: // a checksum, for example
		return nil
	}
	if err != nil {
		return FormatONNX.fault(place, "external data with %s %q, expected a number below 2^63", key, value)
	}
	if key == "offset" {
		e.part.Offset = int64(number)
	} else {
		e.part.Length = int64(number)
	}

	return nil
}

// walk calls each with the place of every field with a length of the message in file[start:end].
func (o *onnxReader) walk(start, end int64, each func(number protowire.Number, start, end int64) error) error {
	for start < end {
		if o.left--; o.left < 0 {
			return FormatONNX.fault(start, "more than %d fields", maxFields)
		}
		var buffer [protobufHead]byte
		window := buffer[:min(protobufHead, end-start)]
		if err := fill(o.file, window, start); err != nil {
			return FormatONNX.fault(start, "cannot be read: %v", err)
		}
		number, kind, head := protowire.ConsumeTag(window)
		if head < 0 {
			return FormatONNX.fault(start, "expected the tag of a field")
		}
		length := int64(0)
		if kind == protowire.BytesType {
			size, prefix := protowire.ConsumeVarint(window[head:])
			if head += prefix; prefix < 0 || size > uint64(end-start-int64(head)) { //nolint:gosec // the head lies before the end
				return FormatONNX.fault(start, "a field of %d bytes, expected it within the message, which ends at %d", size, end)
			}
			length = int64(size) //nolint:gosec // within the file
			if err := each(number, start+int64(head), start+int64(head)+length); err != nil {
				return err
			}
		} else {
			size := protowire.ConsumeFieldValue(number, kind, window[head:])
			if head += size; size < 0 {
				return FormatONNX.fault(start, "expected the value of a field")
			}
		}
		start += int64(head) + length
	}

	return nil
}

// text reads a short text.
func (o *onnxReader) text(start, end int64) (string, error) {
	if end-start > maxLocation {
		return "", FormatONNX.fault(start, "a text of %d bytes about external data, expected at most %d", end-start, maxLocation)
	}
	content := make([]byte, end-start)
	if err := fill(o.file, content, start); err != nil && !errors.Is(err, io.EOF) {
		return "", FormatONNX.fault(start, "cannot be read: %v", err)
	}

	return string(content), nil
}

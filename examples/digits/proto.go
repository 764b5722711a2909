package digits

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field and enum numbers of onnx.proto, as far as the ballast needs them.
const (
	modelGraph = 7

	graphNode, graphName, graphInitializer, graphOutput = 1, 2, 5, 12

	nodeInput, nodeOutput, nodeName, nodeType, nodeAttribute = 1, 2, 3, 4, 5

	attributeName, attributeInt, attributeGraph, attributeKind = 1, 3, 6, 20
	kindInt, kindGraph                                         = 2, 5

	tensorDims, tensorType, tensorName, tensorRaw, tensorExternal, tensorLocation = 1, 2, 8, 9, 13, 14
	typeFloat, typeInt64                                                          = 1, 7
)

// message is a protobuf message under construction.
type message []byte

func (m message) num(field protowire.Number, value int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(value)) //nolint:gosec // two's complement is meant
}

func (m message) bytes(field protowire.Number, value []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), value)
}

func (m message) str(field protowire.Number, values ...string) message {
	for _, value := range values {
		m = m.bytes(field, []byte(value))
	}

	return m
}

// node returns a NodeProto. It is named after its first output.
func node(kind string, inputs, outputs []string, attributes ...message) message {
	m := message(nil).str(nodeInput, inputs...).str(nodeOutput, outputs...).str(nodeName, outputs[0]).str(nodeType, kind)
	for _, attribute := range attributes {
		m = m.bytes(nodeAttribute, attribute)
	}

	return m
}

func intAttribute(name string, value int64) message {
	return message(nil).str(attributeName, name).num(attributeInt, value).num(attributeKind, kindInt)
}

func graphAttribute(name string, graph message) message {
	return message(nil).str(attributeName, name).bytes(attributeGraph, graph).num(attributeKind, kindGraph)
}

// int64s returns a TensorProto that holds its values. No dims is a scalar.
func int64s(name string, values []int64, dims ...int64) message {
	raw := make([]byte, 0, 8*len(values))
	for _, value := range values {
		raw = protowire.AppendFixed64(raw, uint64(value)) //nolint:gosec // two's complement is meant
	}

	return tensor(name, typeInt64, dims).bytes(tensorRaw, raw)
}

// floats is int64s for float32 values.
func floats(name string, values []float32, dims ...int64) message {
	raw := make([]byte, 0, 4*len(values))
	for _, value := range values {
		raw = protowire.AppendFixed32(raw, math.Float32bits(value))
	}

	return tensor(name, typeFloat, dims).bytes(tensorRaw, raw)
}

// external returns a TensorProto of float32 values that lie in another file of the same folder.
func external(name, file string, offset, length int64, dims ...int64) message {
	m := tensor(name, typeFloat, dims)
	for _, entry := range [][2]string{{"location", file}, {"offset", strconv.FormatInt(offset, 10)}, {"length", strconv.FormatInt(length, 10)}} {
		m = m.bytes(tensorExternal, message(nil).str(1, entry[0]).str(2, entry[1]))
	}

	return m.num(tensorLocation, 1)
}

func tensor(name string, elements int64, dims []int64) message {
	m := message(nil)
	for _, dim := range dims {
		m = m.num(tensorDims, dim)
	}

	return m.num(tensorType, elements).str(tensorName, name)
}

// valueInfo returns a ValueInfoProto of a float32 tensor whose shape is left open.
func valueInfo(name string) message {
	return message(nil).str(1, name).bytes(2, message(nil).bytes(1, message(nil).num(1, typeFloat)))
}

// rewrite copies a message field by field. For each length-delimited field of that number, change says what stands instead.
func rewrite(m []byte, field protowire.Number, change func([]byte) ([]byte, error)) (message, error) {
	var out message
	for len(m) > 0 {
		number, kind, head := protowire.ConsumeTag(m)
		if head < 0 {
			return nil, protowire.ParseError(head)
		}
		length := protowire.ConsumeFieldValue(number, kind, m[head:])
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		if number == field && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(m[head:])
			changed, err := change(value)
			if err != nil {
				return nil, err
			}
			out = out.bytes(number, changed)
		} else {
			out = append(out, m[:head+length]...)
		}
		m = m[head+length:]
	}

	return out, nil
}

package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// This file writes small models for the tests, field by field of onnx.proto.

type part []byte

func (p part) num(field protowire.Number, value uint64) part {
	return protowire.AppendVarint(protowire.AppendTag(p, field, protowire.VarintType), value)
}

func (p part) bytes(field protowire.Number, value []byte) part {
	return protowire.AppendBytes(protowire.AppendTag(p, field, protowire.BytesType), value)
}

func (p part) str(field protowire.Number, values ...string) part {
	for _, value := range values {
		p = p.bytes(field, []byte(value))
	}

	return p
}

// dim is a dimension: a number, or a name when it is open ("" for one without a name).
type dim any

// value writes a ValueInfoProto. nil dims leave the rank open.
func value(name string, element Datatype, dims []dim) part {
	kind := part(nil).num(1, uint64(element))
	if dims != nil {
		shape := part(nil)
		for _, one := range dims {
			switch one := one.(type) {
			case int:
				shape = shape.bytes(1, part(nil).num(1, uint64(one)))
			case string:
				shape = shape.bytes(1, part(nil).str(2, one))
			}
		}
		kind = kind.bytes(2, shape)
	}

	return part(nil).str(1, name).bytes(2, part(nil).bytes(1, kind))
}

func operator(kind string, inputs, outputs []string) part {
	return part(nil).str(1, inputs...).str(2, outputs...).str(4, kind)
}

type testModel struct{ nodes, inputs, outputs, weights []part }

func (m testModel) bytes() []byte {
	graph := part(nil).str(2, "test")
	for field, list := range map[protowire.Number][]part{1: m.nodes, 5: m.weights, 11: m.inputs, 12: m.outputs} {
		for _, one := range list {
			graph = graph.bytes(field, one)
		}
	}

	return part(nil).num(1, 8).bytes(7, graph).bytes(8, part(nil).str(1, "").num(2, 17))
}

func (m testModel) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, m.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// identity gives back what it takes: "in" as "out".
func identity(element Datatype, dims ...dim) testModel {
	if dims == nil {
		dims = []dim{}
	}

	return testModel{
		nodes:  []part{operator("Identity", []string{"in"}, []string{"out"})},
		inputs: []part{value("in", element, dims)}, outputs: []part{value("out", element, dims)},
	}
}

// sum takes "a" and "b", whose first dimension has one name, and gives "sum" and "difference".
func sum() testModel {
	dims := []dim{"batch", 2}

	return testModel{
		nodes: []part{
			operator("Add", []string{"a", "b"}, []string{"sum"}), operator("Sub", []string{"a", "b"}, []string{"difference"}),
		},
		inputs:  []part{value("a", FP32, dims), value("b", FP32, dims)},
		outputs: []part{value("sum", FP32, dims), value("difference", FP32, dims)},
	}
}

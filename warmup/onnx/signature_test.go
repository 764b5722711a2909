package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSignatureOfARealModel(t *testing.T) {
	got, err := readSignature(digits)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.inputs) != 1 || len(got.outputs) != 1 || got.inputs[0].name != "image" || got.inputs[0].names[0] != "batch" || got.inputs[0].datatype != FP32 {
		t.Errorf("got %+v", got)
	}
}

func TestWeightsAreNoInputs(t *testing.T) {
	m := sum()
	m.weights = []part{part(nil).num(1, 2).num(2, uint64(FP32)).bytes(9, make([]byte, 8)).str(8, "b")}
	got, err := readSignature(m.write(t))
	if err != nil || len(got.inputs) != 1 || got.inputs[0].name != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestModelsThatCannotBeServedAreRefused(t *testing.T) {
	sequence := part(nil).str(1, "out").bytes(2, part(nil).bytes(4, part(nil).bytes(1, part(nil).bytes(1, part(nil).num(1, 1)))))
	in := []part{value("in", FP32, []dim{"n"})}
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"text", []byte("a text file that somebody took for a model"), "not an ONNX model"},
		{"empty", nil, "not an ONNX model"},
		{"zeros", make([]byte, 100), "not an ONNX model"},
		{"cut off", sum().bytes()[:60], "not an ONNX model"},
		{"FP16", identity(10, "n").bytes(), `"in" is FP16`},
		{"BF16", testModel{inputs: in, outputs: []part{value("out", 16, nil)}}.bytes(), `output "out" is BF16`},
		{"complex", testModel{inputs: in, outputs: []part{value("out", 14, nil)}}.bytes(), "ONNX type 14"},
		{"sequence", testModel{inputs: in, outputs: []part{sequence}}.bytes(), `"out" is not a tensor`},
		{"BYTES scalar", identity(Bytes).bytes(), "BYTES scalar"},
		{"no inputs", testModel{outputs: in}.bytes(), "0 inputs and 1 outputs"},
		{"no outputs", testModel{inputs: in}.bytes(), "1 inputs and 0 outputs"},
		{"no type", testModel{inputs: []part{part(nil).str(1, "in")}, outputs: in}.bytes(), `"in" has no type`},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.onnx")
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readSignature(path); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, expected %q", err, test.want)
			}
		})
	}
}

func FuzzSignature(f *testing.F) {
	f.Add(sum().bytes())
	f.Add(identity(Bytes, 1, "n").bytes())
	f.Fuzz(func(_ *testing.T, content []byte) {
		_, _ = parseSignature(bytes.NewReader(content), int64(len(content)))
	})
}

package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// FuzzRequest holds the decoder to: never a crash, always a fault that is the caller's, and values as many as their shape says.
func FuzzRequest(f *testing.F) {
	takes := signature{}
	for _, datatype := range DatatypeValues() {
		takes.inputs = append(takes.inputs,
			tensorInfo{name: datatype.String(), datatype: datatype, ranked: true, shape: []int64{-1, 2}, names: []string{"n", ""}})
	}
	one := func(datatype Datatype) signature {
		for _, info := range takes.inputs {
			if info.datatype == datatype {
				return signature{inputs: []tensorInfo{info}, outputs: []tensorInfo{{name: "out"}}}
			}
		}

		return signature{}
	}
	for _, datatype := range DatatypeValues() {
		data := strings.TrimSuffix(typed[datatype].sent, "]") + "," + strings.TrimPrefix(typed[datatype].sent, "[")
		f.Add(int(datatype), `{"id":"1","inputs":[{"name":"`+datatype.String()+`","datatype":"`+datatype.String()+`","shape":[3,2],"data":`+data+`}],"outputs":[{"name":"out"}]}`)
	}
	f.Add(int(FP32), `{"inputs":[{"name":"FP32","datatype":"FP32","shape":[2,2],"data":[[1,2],[3,-4e1]]}]}`)
	f.Add(int(Bytes), `{"inputs":[{"name":"BYTES","datatype":"BYTES","shape":[1,2],"data":[["a\\","\"]"]]}]}`)
	f.Fuzz(func(t *testing.T, datatype int, body string) {
		asked, err := decodeRequest([]byte(body), one(Datatype(datatype)))
		if err != nil {
			var known *fault
			if !errors.As(err, &known) || known.kind != invalid {
				t.Fatalf("%v is not the caller's fault", err)
			}

			return
		}
		for _, input := range asked.inputs {
			count, err := elements(input.shape)
			if err != nil || int64(length(input.values)) != count {
				t.Fatalf("%d values for shape %v, %v", length(input.values), input.shape, err)
			}
			encoded, err := encodeResponse("m", asked.id, asked.inputs)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(encoded) {
				t.Fatalf("not JSON: %s", encoded)
			}
			back, err := decodeRequest([]byte(strings.Replace(string(encoded), `"outputs"`, `"inputs"`, 1)), one(Datatype(datatype)))
			if err != nil || fmt.Sprint(back.inputs) != fmt.Sprint(asked.inputs) {
				t.Fatalf("sent %v, got %v, %v", asked.inputs, back.inputs, err)
			}
		}
	})
}

func TestAnswerThatJSONCannotCarryIsAnError(t *testing.T) {
	for _, one := range []tensor{
		{name: "y", datatype: FP32, shape: []int64{2}, values: []float32{1, float32(math.NaN())}},
		{name: "y", datatype: FP64, shape: []int64{2}, values: []float64{1, math.Inf(-1)}},
		{name: "y", datatype: Bytes, shape: []int64{2}, values: []string{"", "\xff"}},
	} {
		_, err := encodeResponse("m", "", []tensor{one})
		if err == nil || !strings.Contains(err.Error(), `output "y": element 1`) || !strings.Contains(err.Error(), "gRPC") {
			t.Errorf("%v: got %v", one.values, err)
		}
	}
}

func TestEnumsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	check := func(name string, text []byte, err error) {
		t.Helper()
		if err != nil || string(text) != name || seen[name] || strings.Contains(name, "type ") || name == "" {
			t.Errorf("%q, marshalled %q, %v", name, text, err)
		}
		seen[name] = true
	}
	for _, one := range DatatypeValues() {
		text, err := one.MarshalText()
		check(one.String(), text, err)
		if codec := codecs[one]; codec.parse == nil || codec.toContents == nil || codec.fromContents == nil || codec.encode == nil || codec.decode == nil || codec.format == nil {
			t.Errorf("%s has no whole codec", one)
		}
	}
	for _, one := range ProviderValues() {
		text, err := one.MarshalText()
		check(one.String(), text, err)
		var back Provider
		if err := back.UnmarshalText(text); err != nil || back != one {
			t.Errorf("%s came back as %s, %v", one, back, err)
		}
	}
	for _, one := range faultKindValues() {
		text, err := one.MarshalText()
		check(one.String(), text, err)
		if one.status() < 400 || one.code() == 0 {
			t.Errorf("%s is %d and %v", one, one.status(), one.code())
		}
	}
	if len(codecs) != len(DatatypeValues()) {
		t.Errorf("%d codecs for %d datatypes", len(codecs), len(DatatypeValues()))
	}
	var provider Provider
	if err := provider.UnmarshalText([]byte("gpu")); err == nil || !strings.Contains(err.Error(), "cpu, cuda, tensorrt") {
		t.Errorf("got %v", err)
	}
}

package warmup

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tritonConfig = `
name: "resnet"  # unknown fields are left out
platform: "onnxruntime_onnx"
max_batch_size: 4
instance_group [ { kind: KIND_GPU count: 2 } ]
dynamic_batching { preferred_batch_size: [ 2, 4 ] }
model_warmup [
  { name: "zeros" batch_size: 2 count: 3 inputs { key: "x" value: { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } },
  { name: "skipped" batch_size: 0 inputs { key: "x" value: { data_type: TYPE_FP32 dims: 2 zero_data: true } } },
  { name: "mixed" batch_size: 2
    inputs { key: "x" value: { data_type: TYPE_FP32 dims: [ 2 ] random_data: true } }
    inputs { key: "ids" value: { data_type: TYPE_INT64 dims: [ 1 ] input_data_file: "ids" } } }
]`

func TestImportTriton(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "warmup"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"config.pbtxt": tritonConfig, "warmup/ids": "\x07\x00\x00\x00\x00\x00\x00\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	count, err := ImportTriton(&out, filepath.Join(dir, "config.pbtxt"))
	if err != nil || count != 4 {
		t.Fatalf("%d requests, %v", count, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last recorded
	if err := json.Unmarshal([]byte(lines[3]), &last); err != nil {
		t.Fatal(err)
	}
	request, err := last.request()
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"inputs":[{"name":"ids","shape":[2,1],"datatype":"INT64","parameters":{"binary_data_size":16}},{"name":"x","shape":[2,2],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`
	body, found := strings.CutPrefix(string(request.Body), head)
	one := "\x07\x00\x00\x00\x00\x00\x00\x00"
	if !found || !strings.HasPrefix(body, one+one) || len(body) != 32 || request.Path != "/v2/models/resnet/infer" || request.Method != http.MethodPost ||
		request.Header.Get("Inference-Header-Content-Length") != "179" || len(head) != 179 {
		t.Errorf("got %s %v %q, a head of %d", request.Path, request.Header, request.Body, len(head))
	}
	var first recorded
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || !bytes.HasSuffix(first.Base64, make([]byte, 16)) || lines[0] != lines[2] {
		t.Errorf("zeros: %q, %v", first.Base64, err)
	}
}

func TestImportTritonRefuses(t *testing.T) {
	t.Parallel()
	sample := func(rest string) string { return `max_batch_size: 8 model_warmup { batch_size: 1 ` + rest + ` }` }
	input := func(rest string) string { return sample(`inputs { key: "x" value: { ` + rest + ` } }`) }
	for text, says := range map[string]string{
		``:                                    "no model_warmup",
		`name: "x" {`:                         "read model configuration",
		sample(``):                            "it has no inputs",
		input(`dims: 1`):                      "for which no value is known",
		sample(`count: -1`):                   "read model configuration",
		input(`data_type: TYPE_FP32 dims: 1`): "expected one of zero_data",
		input(`data_type: TYPE_FP32 dims: -1 zero_data: true`):                                                   "sizes of at least 1",
		input(`data_type: TYPE_FP32 dims: 1 input_data_file: "../x"`):                                            "in the folder warmup",
		input(`data_type: TYPE_FP32 dims: 1 input_data_file: "none"`):                                            "no such file",
		input(`data_type: TYPE_FP32 dims: [ 1099511627776, 1099511627776, 1099511627776 ] zero_data: true`):      "exceeds",
		`model_warmup { batch_size: 2 inputs { key: "x" value: { data_type: TYPE_FP32 zero_data: true } } }`:     "max_batch_size 0",
		sample(`count: 1001 inputs { key: "x" value: { data_type: TYPE_FP32 zero_data: true } }`):                "more than 1000 requests",
		sample(`count: 1000 inputs { key: "x" value: { data_type: TYPE_UINT8 dims: 1000000 zero_data: true } }`): "exceed the 268435456 bytes",
	} {
		if _, err := importTriton(&bytes.Buffer{}, []byte(text), t.TempDir(), importTotal); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, expected one that says %q", text, err, says)
		}
	}
}

// TestImportTritonMakesNothingInVain has requests that are too many bytes together: none of them is written.
func TestImportTritonMakesNothingInVain(t *testing.T) {
	t.Parallel()
	for count, want := range map[string]int{"9": 9, "10": 0} {
		var out bytes.Buffer
		text := `model_warmup { batch_size: 1 count: ` + count + ` inputs { key: "x" value: { data_type: TYPE_UINT8 dims: 1000 zero_data: true } } }`
		if got, err := importTriton(&out, []byte(text), t.TempDir(), 10_500); got != want || (want == 0) != (err != nil) || (want == 0 && out.Len() > 0) {
			t.Errorf("%s requests: %d were written, %d bytes, %v", count, got, out.Len(), err)
		}
	}
}

func FuzzImportTriton(f *testing.F) {
	f.Add([]byte(tritonConfig))
	f.Add([]byte(`model_warmup { batch_size: 4294967295 inputs { key: "x" value: { data_type: TYPE_STRING dims: 9223372036854775807 random_data: true } } }`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		var out bytes.Buffer
		count, err := importTriton(&out, text, dir, 1<<16)
		if err == nil && bytes.Count(out.Bytes(), []byte("\n")) != count {
			t.Errorf("%d requests in %d lines", count, bytes.Count(out.Bytes(), []byte("\n")))
		}
	})
}

package onnx

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// typed holds, for each datatype, values at its limits: as JSON, and how the answer has to write them.
var typed = map[Datatype]struct{ sent, want string }{
	Bool:   {`[true,false,true]`, `[true,false,true]`},
	Int8:   {`[-128,0,127]`, `[-128,0,127]`},
	Int16:  {`[-32768,0,32767]`, `[-32768,0,32767]`},
	Int32:  {`[-2147483648,0,2147483647]`, `[-2147483648,0,2147483647]`},
	Int64:  {`[-9223372036854775808,9007199254740993,9223372036854775807]`, `[-9223372036854775808,9007199254740993,9223372036854775807]`},
	Uint8:  {`[0,1,255]`, `[0,1,255]`},
	Uint16: {`[0,1,65535]`, `[0,1,65535]`},
	Uint32: {`[0,1,4294967295]`, `[0,1,4294967295]`},
	Uint64: {`[0,9007199254740993,18446744073709551615]`, `[0,9007199254740993,18446744073709551615]`},
	FP32:   {`[-0.1, 3.4028235e38, 1]`, `[-0.1,3.4028235e+38,1]`},
	FP64:   {`[0.1, 1.7976931348623157e308, -5e-324]`, `[0.1,1.7976931348623157e+308,-5e-324]`},
	Bytes:  {`["", "a \"quoted\" \u00e9", "ß€"]`, `["","a \"quoted\" é","ß€"]`},
}

// everyType serves an identity model for each datatype, named after it.
func everyType(t *testing.T, settings Settings) *served {
	t.Helper()
	models := map[string]string{}
	for _, datatype := range DatatypeValues() {
		models[datatype.String()] = identity(datatype, "n").write(t)
	}

	return serve(t, settings, models).warm()
}

func TestEveryDatatypeComesBackOverHTTP(t *testing.T) {
	s := everyType(t, Settings{})
	for _, datatype := range DatatypeValues() {
		t.Run(datatype.String(), func(t *testing.T) {
			values, known := typed[datatype]
			if !known {
				t.Fatal("no values to try")
			}
			answer := s.infer(datatype.String(), fmt.Sprintf(`{"id":"42","parameters":{"a":1},"inputs":[{"name":"in","shape":[3],"datatype":%q,"data":%s,"parameters":{"b":"c"}}]}`, datatype, values.sent))
			if answer.Name != datatype.String() || answer.Version != "1" || answer.ID != "42" || len(answer.Outputs) != 1 {
				t.Fatalf("got %+v", answer)
			}
			if out := answer.Outputs[0]; out.Name != "out" || out.Datatype != datatype.String() || len(out.Shape) != 1 || out.Shape[0] != 3 || string(out.Data) != values.want {
				t.Errorf("got %+v with %s, expected %s", out, out.Data, values.want)
			}
		})
	}
}

func TestShapesComeBack(t *testing.T) {
	s := serve(t, Settings{}, map[string]string{
		"matrix": identity(FP32, "n", 2, 3).write(t),
		"scalar": identity(Int64).write(t),
		"open": testModel{
			nodes:  []part{operator("Identity", []string{"in"}, []string{"out"})},
			inputs: []part{value("in", FP32, nil)}, outputs: []part{value("out", FP32, nil)},
		}.write(t),
	}).warm()
	for _, test := range []struct{ name, model, shape, data, want string }{
		{"flat", "matrix", "[2,2,3]", "[1,2,3,4,5,6,7,8,9,10,11,12]", "[1,2,3,4,5,6,7,8,9,10,11,12]"},
		{"nested", "matrix", "[2,2,3]", "[[[1,2,3],[4,5,6]],\n [[7,8,9],[10,11,12]]]", "[1,2,3,4,5,6,7,8,9,10,11,12]"},
		{"nested with ones", "matrix", "[1,2,3]", "[[[1,2,3],[4,5,6]]]", "[1,2,3,4,5,6]"},
		{"scalar", "scalar", "[]", "[7]", "[7]"},
		{"rank left open", "open", "[2,1]", "[[1],[2]]", "[1,2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			datatype := "FP32"
			if test.model == "scalar" {
				datatype = "INT64"
			}
			answer := s.infer(test.model, `{"inputs":[{"name":"in","datatype":"`+datatype+`","shape":`+test.shape+`,"data":`+test.data+`}]}`)
			shape, err := json.Marshal(answer.Outputs[0].Shape)
			if err != nil {
				t.Fatal(err)
			}
			if string(answer.Outputs[0].Data) != test.want || string(shape) != test.shape {
				t.Errorf("got %s of %s, expected %s of %s", answer.Outputs[0].Data, shape, test.want, test.shape)
			}
		})
	}
}

func TestOutputsAreSelected(t *testing.T) {
	s := serve(t, Settings{}, map[string]string{"sum": sum().write(t)}).warm()
	inputs := `"inputs":[{"name":"b","datatype":"FP32","shape":[1,2],"data":[1,2]},{"name":"a","datatype":"FP32","shape":[1,2],"data":[10,20]}]`
	for _, test := range []struct {
		name, outputs string
		want          []string
	}{
		{"all", ``, []string{"sum [11,22]", "difference [9,18]"}},
		{"none named", `,"outputs":[]`, []string{"sum [11,22]", "difference [9,18]"}},
		{"one", `,"outputs":[{"name":"difference","parameters":{"classification":1}}]`, []string{"difference [9,18]"}},
		{"both, turned round", `,"outputs":[{"name":"difference"},{"name":"sum"}]`, []string{"difference [9,18]", "sum [11,22]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			outputs := s.infer("sum", "{"+inputs+test.outputs+"}").Outputs
			got := make([]string, 0, len(outputs))
			for _, output := range outputs {
				got = append(got, output.Name+" "+string(output.Data))
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %v, expected %v", got, test.want)
			}
		})
	}
}

func TestBadRequestsNameInputExpectedAndGot(t *testing.T) {
	s := serve(t, Settings{MaxBody: 4096}, map[string]string{
		"sum": sum().write(t), "text": identity(Bytes, "n").write(t), "whole": identity(Int64, "n").write(t), "flag": identity(Bool, "n").write(t), "small": identity(Int8, "n").write(t),
	}).warm()
	input := func(name, datatype, shape, data string) string {
		return `{"name":"` + name + `","datatype":"` + datatype + `","shape":` + shape + `,"data":` + data + `}`
	}
	both := func(a, b string) string { return `{"inputs":[` + a + `,` + b + `]}` }
	good := input("b", "FP32", "[1,2]", "[1,2]")
	for _, test := range []struct {
		name, model, body string
		status            int
		want              []string // all in the error
	}{
		{"wrong name", "sum", both(input("c", "FP32", "[1,2]", "[1,2]"), good), 400, []string{`input "c"`, `expected "a" and "b"`}},
		{"missing", "sum", `{"inputs":[` + good + `]}`, 400, []string{`input "a"`, "missing"}},
		{"none", "sum", `{}`, 400, []string{`input "a"`, "missing"}},
		{"twice", "sum", both(good, good), 400, []string{`input "b"`, "twice"}},
		{"datatype", "sum", both(input("a", "FP64", "[1,2]", "[1,2]"), good), 400, []string{`input "a"`, "expected datatype FP32", `"FP64"`}},
		{"rank", "sum", both(input("a", "FP32", "[2]", "[1,2]"), good), 400, []string{`input "a"`, "expected shape [-1 2]", "got [2]"}},
		{"dimension", "sum", both(input("a", "FP32", "[1,3]", "[1,2,3]"), good), 400, []string{`input "a"`, "expected shape [-1 2]", "got [1 3]"}},
		{"negative", "sum", both(input("a", "FP32", "[-1,2]", "[1,2]"), good), 400, []string{`input "a"`, "expected at least 1, got -1"}},
		{"empty batch", "sum", both(input("a", "FP32", "[0,2]", "[]"), good), 400, []string{`input "a"`, "expected at least 1, got 0"}},
		{"overflow", "sum", both(input("a", "FP32", "[9223372036854775807,2]", "[1,2]"), good), 400, []string{`input "a"`, "more elements than can be counted"}},
		{"huge claim", "sum", both(input("a", "FP32", "[2305843009213693952,2]", "[1,2]"), good), 400, []string{`input "a"`, "expected 4611686018427387904 elements, got 2"}},
		{"too large a number", "sum", both(input("a", "FP32", "[9223372036854775808,2]", "[1,2]"), good), 400, []string{"inputs.shape", "expected a whole number of 64 bits"}},
		{"batches differ", "sum", both(input("a", "FP32", "[2,2]", "[1,2,3,4]"), good), 400, []string{`input "b"`, `expected 2 (batch, as in input "a")`, "got 1"}},
		{"too few", "sum", both(input("a", "FP32", "[1,2]", "[1]"), good), 400, []string{`input "a"`, "expected 2 elements, got 1"}},
		{"too many", "sum", both(input("a", "FP32", "[1,2]", "[1,2,3]"), good), 400, []string{`input "a"`, "expected 2 elements, got more"}},
		{"ragged", "sum", both(input("a", "FP32", "[2,2]", "[[1,2,3],[4]]"), good), 400, []string{`input "a"`, "expected 2 elements in each list of dimension 1, got 3"}},
		{"too many lists", "sum", both(input("a", "FP32", "[1,2]", "[[1],[2]]"), good), 400, []string{`input "a"`, "expected 2 elements in each list"}},
		{"mixed", "sum", both(input("a", "FP32", "[1,2]", "[[1,2],3]"), good), 400, []string{`input "a"`, "expected a list"}},
		{"list in flat", "sum", both(input("a", "FP32", "[1,2]", "[1,[2]]"), good), 400, []string{`input "a"`, "expected a value, got a list"}},
		{"deeper than the shape", "whole", `{"inputs":[` + input("in", "INT64", "[1]", "[[1]]") + `]}`, 400, []string{`input "in"`, "expected a value, got a list"}},
		{"no data", "sum", both(`{"name":"a","datatype":"FP32","shape":[1,2]}`, good), 400, []string{`input "a"`, "no data"}},
		{"null data", "sum", both(input("a", "FP32", "[1,2]", "null"), good), 400, []string{`input "a"`, "expected a list, got null"}},
		{"object data", "sum", both(input("a", "FP32", "[1,2]", `{"x":[1,2]}`), good), 400, []string{`input "a"`, "expected a list"}},
		{"no shape", "sum", both(`{"name":"a","datatype":"FP32","data":[1,2]}`, good), 400, []string{`input "a"`, "expected a shape"}},
		{"string for number", "sum", both(input("a", "FP32", "[1,2]", `["1",2]`), good), 400, []string{`input "a"`, "element 0: expected FP32", `"1"`}},
		{"number too large", "sum", both(input("a", "FP32", "[1,2]", `[1,1e39]`), good), 400, []string{`input "a"`, "element 1: expected FP32, got 1e39"}},
		{"fraction for whole", "whole", `{"inputs":[` + input("in", "INT64", "[1]", "[1.5]") + `]}`, 400, []string{`input "in"`, "element 0: expected INT64, got 1.5"}},
		{"beyond 64 bits", "whole", `{"inputs":[` + input("in", "INT64", "[1]", "[9223372036854775808]") + `]}`, 400, []string{`input "in"`, "expected INT64, got 9223372036854775808"}},
		{"beyond 8 bits", "small", `{"inputs":[` + input("in", "INT8", "[1]", "[128]") + `]}`, 400, []string{`input "in"`, "expected INT8, got 128"}},
		{"number for flag", "flag", `{"inputs":[` + input("in", "BOOL", "[1]", "[1]") + `]}`, 400, []string{`input "in"`, "expected BOOL, got 1"}},
		{"number for text", "text", `{"inputs":[` + input("in", "BYTES", "[1]", "[1]") + `]}`, 400, []string{`input "in"`, "expected BYTES as a string, got 1"}},
		{"zero byte", "text", `{"inputs":[` + input("in", "BYTES", "[1]", `["a\u0000b"]`) + `]}`, 400, []string{`input "in"`, "zero byte"}},
		{"unknown output", "sum", `{"outputs":[{"name":"product"}]}`, 400, []string{`output "product"`, `expected "sum" and "difference"`}},
		{"output twice", "sum", `{"outputs":[{"name":"sum"},{"name":"sum"}]}`, 400, []string{`output "sum"`, "twice"}},
		{"not JSON", "sum", `image`, 400, []string{"body", "expected JSON"}},
		{"empty body", "sum", ``, 400, []string{"body", "expected JSON"}},
		{"trailing garbage", "sum", `{} {}`, 400, []string{"body", "expected JSON"}},
		{"cut off", "sum", `{"inputs":[`, 400, []string{"body", "expected JSON"}},
		{"a list", "sum", `[]`, 400, []string{"body", "expected an object, got array"}},
		{"name is a number", "sum", `{"inputs":[{"name":1}]}`, 400, []string{"inputs.name", "expected a string, got number"}},
		{"not UTF-8", "sum", "{\"id\":\"\xff\"}", 400, []string{"expected UTF-8"}},
		{"too large", "sum", `{"id":"` + strings.Repeat("x", 5000) + `"}`, 400, []string{"body", "expected at most 4096 bytes, got 5009"}},
		{"unknown model", "none", `{}`, 404, []string{`model "none"`}},
		{"unknown version", "sum/versions/2", `{}`, 404, []string{`model "sum"`, `no version "2", expected "1"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body := s.call(http.MethodPost, "/v2/models/"+test.model+"/infer", test.body)
			var answer struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if status != test.status {
				t.Errorf("status %d, expected %d", status, test.status)
			}
			for _, text := range test.want {
				if !strings.Contains(answer.Error, text) {
					t.Errorf("got %q, expected it to say %q", answer.Error, text)
				}
			}
		})
	}
	// The worker is as well as before.
	if got := string(s.infer("sum", both(input("a", "FP32", "[1,2]", "[[1,2]]"), good)).Outputs[0].Data); got != "[2,4]" {
		t.Errorf("after all that, the sum is %s", got)
	}
}

func TestBodyWithoutLengthIsBounded(t *testing.T) {
	s := serve(t, Settings{MaxBody: 100, Lazy: true}, map[string]string{"sum": sum().write(t)})
	conn, err := net.Dial("tcp", s.target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n%s\r\n0\r\n\r\n", strings.Repeat("x", 0x100)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestBinaryTensorDataIsRefusedByName(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v2/models/sum/infer", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Inference-Header-Content-Length", "2")
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestMetadata(t *testing.T) {
	s := serve(t, Settings{Version: "v9", Lazy: true}, map[string]string{"digits": digits, "sum": sum().write(t)})
	for _, test := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v2", 200, `{"extensions":[],"name":"pilotlight","version":"v9"}`},
		{"/v2/", 200, `{"extensions":[],"name":"pilotlight","version":"v9"}`},
		{"/v2/health/live", 200, `{"live":true}`},
		{"/v2/health/ready", 200, `{"ready":true}`},
		{"/v2/models/digits/ready", 200, `{"name":"digits","ready":true}`},
		{"/v2/models/digits/versions/1/ready", 200, `{"name":"digits","ready":true}`},
		{"/v2/models/digits/versions/7/ready", 404, `{"error":"model \"digits\": no version \"7\", expected \"1\""}`},
		{"/v2/models/none/ready", 404, `{"error":"model \"none\": no such model"}`},
		{"/v2/models/none", 404, `{"error":"model \"none\": no such model"}`},
		{"/v1/models", 404, `{"error":"GET /v1/models: no such path"}`},
		{"/v2/models/digits", 200, `{"inputs":[{"datatype":"FP32","name":"image","shape":[-1,1,8,8]}],"name":"digits","outputs":[{"datatype":"FP32","name":"scores","shape":[-1,10]}],"platform":"onnxruntime_onnx","versions":["1"]}`},
	} {
		t.Run(test.path, func(t *testing.T) {
			if status, body := s.call(http.MethodGet, test.path, ""); status != test.status || body != test.want {
				t.Errorf("got %d %s, expected %d %s", status, body, test.status, test.want)
			}
		})
	}
	// None of it loaded a model.
	if loaded := s.server.models[0].loaded(); loaded != nil {
		t.Error("asking for metadata loaded the model")
	}
}

func TestListenTimeIsLogged(t *testing.T) {
	before := time.Now()
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	s.call(http.MethodGet, "/v2", "")
	var line struct {
		Listen  time.Time `json:"listen"`
		Address string    `json:"address"`
		Message string    `json:"msg"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(s.log.String(), "\n", 2)[0]), &line); err != nil {
		t.Fatalf("%v in %s", err, s.log)
	}
	if line.Listen.Before(before) || line.Listen.After(time.Now()) || line.Address != s.target {
		t.Errorf("got %+v", line)
	}
}

func TestPanicBecomesAnAnswer(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	s.server.models[0].signature.inputs[0].datatype = 99 // for which there is no codec
	status, text := s.call(http.MethodPost, "/v2/models/sum/infer", strings.Replace(sumBody, "FP32", "ONNX type 99", 1))
	if status != http.StatusInternalServerError || !strings.Contains(text, "the worker failed") {
		t.Errorf("got %d %s", status, text)
	}
	if status, _ := s.call(http.MethodGet, "/v2/health/live", ""); status != http.StatusOK {
		t.Errorf("live is %d afterwards", status)
	}
}

// A caller who leaves while another one's load goes on must not end it.
func TestCallerWhoLeavesFreesItsPlace(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	release, load := make(chan struct{}), s.server.models[0].load
	s.server.models[0].load = func() (*session, error) {
		<-release

		return load()
	}
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v2/models/sum/infer", strings.NewReader(sumBody))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := s.client.Do(request); err == nil {
			_ = response.Body.Close()
			t.Error("the caller who left got an answer")
		}
	}()
	waitFor(t, "the request to wait", func() bool { return s.server.waiting.Load() == 1 })
	leave()
	<-left
	waitFor(t, "its place to be free", func() bool { return s.server.waiting.Load() == 0 })
	close(release)
	s.infer("sum", sumBody)
}

// waitFor polls a condition that no channel tells of.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

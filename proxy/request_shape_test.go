package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestShapeOf(t *testing.T) {
	t.Parallel()
	prompt := strings.Repeat("word ", 100) // 500 bytes
	for name, test := range map[string]struct {
		path, body string
		want       RequestShape
	}{
		"tensors":         {"/v2/models/m/infer", `{"id":"1","inputs":[{"name":"x","shape":[3,224,224],"datatype":"FP32","data":[1,[2,3]]},{"name":"y","shape":[7]}]}`, RequestShape{Model: "m", Batch: 4, Input: 65536}},
		"nested data":     {"/v2/models/m/infer", `{"inputs":[{"data":[1,[2],3,["a]\"",{"b":[4,5]}],6],"shape":[5]}],"max_tokens":9}`, RequestShape{Model: "m", Batch: 8, Input: 1, Output: 16}},
		"version":         {"/v2/models/m/versions/2/infer", `{"inputs":[{"shape":[1]}]}`, RequestShape{Model: "m", Batch: 1, Input: 1}},
		"binary tensors":  {"/v2/models/m/infer", "{\"inputs\":[{\"shape\":[8,2]}]}\x00\x01\"{", RequestShape{Model: "m", Batch: 8, Input: 2}},
		"chat":            {"/v1/chat/completions", `{"model":"llama","messages":[{"role":"user","content":"` + prompt + `"}],"temperature":0.7,"stream":true,"max_tokens":100}`, RequestShape{Model: "llama", Endpoint: "chat", Input: 128, Output: 128, Stream: true, Sampled: true}},
		"picture":         {"/v1/chat/completions", `{"messages":[{"content":[{"type":"text","text":"what"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAAAAAAAAAAAAAAAAAA"}}]}],"model":"v"}`, RequestShape{Model: "v", Endpoint: "chat", Input: 1, Image: true}},
		"no picture":      {"/api/generate", `{"model":"v","images":[],"prompt":"what"}`, RequestShape{Model: "v", Input: 1}},
		"completion":      {"/v1/completions", `{"model":"a","prompt":"a\"b","temperature":0,"max_tokens":1}`, RequestShape{Model: "a", Endpoint: "completions", Input: 1, Output: 1}},
		"prompts":         {"/v1/completions", `{"model":"a","prompt":["abcd","efgh","ijkl"]}`, RequestShape{Model: "a", Endpoint: "completions", Batch: 4, Input: 1}},
		"token ids":       {"/v1/completions", `{"model":"a","prompt":[1,2,3,4,5]}`, RequestShape{Model: "a", Endpoint: "completions", Input: 8}},
		"embeddings":      {"/v1/embeddings", `{"input":["abcdefgh","ijklmnop"],"model":"e"}`, RequestShape{Model: "e", Endpoint: "embeddings", Batch: 2, Input: 2}},
		"tgi":             {"/generate_stream", `{"inputs":"abcdefgh","parameters":{"max_new_tokens":20,"temperature":0.5,"adapter_id":"fr"}}`, RequestShape{Adapter: "fr", Input: 2, Output: 32, Stream: true, Sampled: true}},
		"instances":       {"/v1/models/m:predict", `{"instances":[[1,2],[3,4],[5,6]]}`, RequestShape{Model: "m", Batch: 4}},
		"no JSON":         {"/v2/models/m/infer", "xxxxxxxx", RequestShape{}},
		"a list":          {"/v1/completions", `[1,2]`, RequestShape{}},
		"nothing":         {"/v1/completions", ``, RequestShape{}},
		"an application":  {"/predict", `{"x":1}`, RequestShape{}},
		"a long name":     {"/v1/completions", `{"model":"` + strings.Repeat("m", 200) + `","prompt":"a"}`, RequestShape{Endpoint: "completions", Input: 1}},
		"a model below":   {"/v1/completions", `{"metadata":{"model":"x"},"prompt":"a"}`, RequestShape{Endpoint: "completions", Input: 1}},
		"broken off":      {"/v1/completions", `{"model":"m","prompt":"abc`, RequestShape{}},
		"deep":            {"/v1/completions", `{"a":` + strings.Repeat(`[{"b":`, 50) + `1` + strings.Repeat(`}]`, 50) + `,"model":"m","prompt":"a"}`, RequestShape{Model: "m", Endpoint: "completions", Input: 1}},
		"a huge number":   {"/v1/completions", `{"model":"m","max_tokens":99999999999999999999,"prompt":"a"}`, RequestShape{Model: "m", Endpoint: "completions", Input: 1}},
		"too many closed": {"/v1/completions", `}}}]]]`, RequestShape{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := test.want
			if name == "broken off" { // what came is all there is to tell
				want = RequestShape{Model: "m", Endpoint: "completions"}
			}
			if got := ShapeOf(test.path, []byte(test.body)); got != want {
				t.Errorf("got %+v, expected %+v", got, want)
			}
			// However the bytes come in pieces, they say the same.
			for _, size := range []int{1, 7} {
				scan := shapeScan{}
				scan.begin(test.path, false)
				for rest := []byte(test.body); len(rest) > 0; rest = rest[min(size, len(rest)):] {
					scan.see(rest[:min(size, len(rest))])
				}
				if got := scan.shape(); got != want {
					t.Errorf("in pieces of %d: got %+v, expected %+v", size, got, want)
				}
			}
		})
	}
}

// BenchmarkShapeOf shows what a kilobyte of a request costs, which nearly every one pays.
func BenchmarkShapeOf(b *testing.B) {
	for name, body := range map[string]string{
		"tensor": `{"inputs":[{"name":"x","shape":[1,160],"datatype":"FP32","data":[` + strings.Repeat("0.125,", 159) + `1]}]}`,
		"chat":   `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 190) + `"}]}`,
		"tokens": `{"model":"m","prompt":[` + strings.Repeat("12345,", 160) + `1]}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				ShapeOf("/v2/models/m/infer", data)
			}
		})
	}
}

func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	body := `{"prompt":"` + strings.Repeat("x", scanLimit) + `","model":"late"}`
	if got := ShapeOf("/v1/completions", []byte(body)); got.Model != "" {
		t.Errorf("what stands behind the limit was read: %+v", got)
	}
}

func TestKeysTellShapesApart(t *testing.T) {
	t.Parallel()
	keys := map[any]RequestShape{}
	for _, shape := range []RequestShape{
		{Model: "a"},
		{Adapter: "a"},
		{Model: "a", Batch: 1},
		{Model: "a", Input: 1},
		{Model: "a", Output: 1},
		{Model: "a", Batch: 2},
		{Model: "a", Stream: true},
		{Model: "a", Sampled: true},
		{Model: "a", Image: true},
		{Model: "a", Endpoint: "chat"},
	} {
		if other, taken := keys[shape.Key()]; taken || shape.Key() == 0 {
			t.Errorf("%+v has the key of %+v", shape, other)
		}
		keys[shape.Key()] = shape
	}
	if (RequestShape{}).Key() != 0 {
		t.Error("the unknown shape has a key")
	}
}

// TestShapesOfUsersAreObserved sends requests through the proxy, small and large ones, and one that the backend refuses.
func TestShapesOfUsersAreObserved(t *testing.T) {
	t.Parallel()
	backend := httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasPrefix(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, "{}")
	})
	for _, kind := range TransportValues() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []Observation
			r := socketRig(t, backend, func(s *Settings, _ *GateSettings) {
				s.Transport = kind
				s.Observed = func(o Observation) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, o)
				}
			})
			open(r.gate)
			send := func(path, body string) {
				resp, err := r.client.Post("http://"+r.front+path, "application/json", bytes.NewReader([]byte(body)))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			send("/v1/completions", `{"model":"m","prompt":"abcd"}`)
			send("/v1/completions", `{"model":"m","prompt":"`+strings.Repeat("x", 40000)+`"}`)
			send("/bad/completions", `{"model":"m","prompt":"abcd"}`)
			r.handler.Close()
			mu.Lock()
			defer mu.Unlock()
			if len(seen) != 2 || seen[0].Shape.Input != 1 || seen[1].Shape.Input != 16384 || seen[0].FirstByte <= 0 {
				t.Errorf("observed %+v, expected two answered requests of 1 and of 16384 tokens", seen)
			}
		})
	}
}

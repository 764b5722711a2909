package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestTheOriginIsAModelServer(t *testing.T) {
	t.Parallel()
	o := newOrigin()
	address := listening(t, func(l net.Listener) { _ = o.serve(t.Context(), l) })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tests := []struct {
		name, method, path, ask string
		status                  int
		body                    string
	}{
		{name: "server", method: http.MethodGet, path: "/v2", status: 200, body: `"name":"bench"`},
		{name: "ready", method: http.MethodGet, path: "/v2/health/ready", status: 200},
		{name: "models", method: http.MethodPost, path: "/v2/repository/index", status: 200, body: `"state":"READY"`},
		{name: "metadata", method: http.MethodGet, path: "/v2/models/bench", status: 200, body: `"datatype":"FP32"`},
		{name: "inference", method: http.MethodPost, path: "/v2/models/bench/infer", status: 200, body: `"data":[1]`},
		{name: "unknown path", method: http.MethodGet, path: "/v2/models/bench/config", status: 404},
		{name: "size", method: http.MethodPost, path: "/v2/models/bench/infer", ask: askBytes(1 << 10), status: 200, body: strings.Repeat("a", 1<<10)},
		{name: "unknown size", method: http.MethodPost, path: "/v2/models/bench/infer", ask: askBytes(17), status: 400, body: "expected bytes=N or tokens=N"},
		{name: "tokens", method: http.MethodPost, path: "/v2/models/bench/infer", ask: askTokens(3, 1000), status: 200, body: "data: 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, "http://"+address+test.path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if test.ask != "" {
				request.Header.Set(askHeader, test.ask)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode != test.status || !strings.Contains(string(body), test.body) {
				t.Errorf("got %d %.80q, %v, want %d %.80q", response.StatusCode, body, err, test.status, test.body)
			}
			if test.name == "tokens" && len(body) != 3*tokenSize {
				t.Errorf("got %d bytes, want 3 tokens of %d", len(body), tokenSize)
			}
		})
	}
}

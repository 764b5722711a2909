package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs a command in this process.
func command(arguments ...string) (code int, out, err string) {
	var stdout, stderr bytes.Buffer
	code = execute(&stdio{in: strings.NewReader(""), out: &stdout, err: &stderr}, arguments)

	return code, stdout.String(), stderr.String()
}

// application answers POST /predict and says that it is FastAPI.
func application(t *testing.T, status int) (address string, requests func() int) {
	t.Helper()
	n := make(chan int, 1)
	n <- 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /openapi.json":
			_, _ = io.WriteString(w, `{"openapi":"3.1.0"}`)
		case "POST /predict":
			n <- 1 + <-n
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"y":1}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)

	return strings.TrimPrefix(server.URL, "http://"), func() int {
		total := <-n
		n <- total

		return total
	}
}

func sampleConfig(t *testing.T, address string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"sample": "POST /predict\n\n{\"x\": 1}\n",
		"c.yaml": "version: 1\nbackend: {http: \"" + address + "\"}\nwarmup:\n  sample: " + filepath.Join(folder, "sample") +
			"\n  steps:\n  - {name: up, wait: {}}\n  - {name: shapes, needs: [up], retries: 0, infer: {until: 5, expect: {json: {y: \"1\"}}}}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return filepath.Join(folder, "c.yaml")
}

func TestWarmShowsProgressAndReports(t *testing.T) {
	address, requests := application(t, http.StatusOK)
	code, out, progress := command("warm", "-c", sampleConfig(t, address), "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, progress)
	}
	if !json.Valid([]byte(out)) {
		t.Errorf("no JSON: %s", out)
	}
	for _, want := range []string{`"server_type": "http"`, `"state": "counted"`, `"outcome": "warm"`, `"workers_unknown"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %s:\n%s", want, out)
		}
	}
	for _, want := range []string{"step up", "models: default", "default sample: counted, n=5", "model default: warm"} {
		if !strings.Contains(progress, want) {
			t.Errorf("the progress does not say %q:\n%s", want, progress)
		}
	}
	if n := requests(); n != 5 {
		t.Errorf("%d requests, expected 5", n)
	}
}

// TestWarmInventsNoRequest has the same application without a sample.
func TestWarmInventsNoRequest(t *testing.T) {
	address, requests := application(t, http.StatusOK)
	code, _, said := command("warm", "--backend", address)
	if code != exitFailure || !strings.Contains(said, "not warm: model default: warmed_nothing") || !strings.Contains(said, "warmup.sample") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if n := requests(); n != 0 {
		t.Errorf("%d requests were made up", n)
	}
}

func TestWarmFailsWithTheReason(t *testing.T) {
	address, _ := application(t, http.StatusInternalServerError)
	code, _, said := command("warm", "-c", sampleConfig(t, address))
	if code != exitFailure || !strings.Contains(said, "status 500") || !strings.Contains(said, "step shapes failed") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

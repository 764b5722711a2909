package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// biased is the model of examples/digits with one weight changed, as by a wrong file or a kernel that counts wrongly: it answers as fast, and in form as well.
func biased(t *testing.T) string {
	t.Helper()
	model := digits.Model()
	name := []byte("dense_bJ(") // the name of the last layer's bias, and the head of its ten values
	at := bytes.LastIndex(model, name)
	if at < 0 {
		t.Fatal("the model has no dense_b")
	}
	binary.LittleEndian.PutUint32(model[at+len(name):], math.Float32bits(5))
	path := filepath.Join(t.TempDir(), "digits.onnx")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// compared warms a server of the model at served, whose answers must be those of the model at reference.
func compared(t *testing.T, served, reference string) (code int, said string) {
	t.Helper()
	backend := freeAddress(t)
	start(t, "onnx", "--model", served, "--name", "digits", "--listen", backend)
	until(t, "http://"+backend+"/v2/health/ready", http.StatusOK)
	path := freePorts(t).configure(t, "http: '"+backend+"', type: oip", "warmup:\n  steps:\n"+
		"  - {name: shapes, retries: 0, infer: {until: 3, grid: {batch: [1, 2], endpoint: [http, grpc]}, expect: {equals_reference: '"+reference+"'}}}\n")
	warming := start(t, "warm", "-c", path)
	code = warming.exit()
	if left := references(t, reference); len(left) > 0 {
		t.Errorf("the reference outlived its run: %v", left)
	}

	return code, warming.printed()
}

// references lists the processes that serve the model at path as a reference.
func references(t *testing.T, path string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(warmup.ReferenceModel+"="+path)) { // an error: it has just ended
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}

	return found
}

// TestWarmAndCorrect has a server whose answers are right, and two controls: one whose answers are wrong, and a reference that does not start.
func TestWarmAndCorrect(t *testing.T) {
	right := writeModel(t)
	for _, test := range []struct {
		name, served, reference string
		code                    int
		says                    string
	}{
		{"right", right, right, 0, "digits batch=2 endpoint=grpc: counted, n=3"},
		{"wrong", biased(t), right, exitFailure, `compare with the reference: output "scores" at 0: expected `},
		{"no reference", right, right + ".none", exitFailure, "start the reference " + right + ".none: run the worker: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, said := compared(t, test.served, test.reference)
			if code != test.code || !strings.Contains(said, test.says) {
				t.Errorf("exit code %d, expected %d and %q:\n%s", code, test.code, test.says, said)
			}
		})
	}
}

// TestReferenceWithoutALibrary says in a sentence what is missing.
func TestReferenceWithoutALibrary(t *testing.T) {
	model := writeModel(t)
	backend := freeAddress(t)
	start(t, "onnx", "--model", model, "--name", "digits", "--listen", backend)
	until(t, "http://"+backend+"/v2/health/ready", http.StatusOK)
	path := freePorts(t).configure(t, "http: '"+backend+"', type: oip", "warmup:\n  steps:\n"+
		"  - {name: shapes, retries: 0, infer: {until: 3, expect: {equals_reference: '"+model+"'}}}\n")
	t.Setenv("PILOTLIGHT_ONNXRUNTIME", "/nowhere/libonnxruntime.so")
	warming := start(t, "warm", "-c", path)
	if code, said := warming.exit(), warming.printed(); code != exitFailure || !strings.Contains(said, "start the reference") || !strings.Contains(said, "/nowhere/libonnxruntime.so") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

// TestReferenceEndsWithItsRun has a Pilotlight that goes on: the memory of the reference must not.
func TestReferenceEndsWithItsRun(t *testing.T) {
	model, backend, p := writeModel(t), freeAddress(t), freePorts(t)
	start(t, "onnx", "--model", model, "--name", "digits", "--listen", backend)
	pilotlight := start(t, "run", "-c", p.configure(t, "http: '"+backend+"'", "warmup:\n  steps:\n"+
		"  - {name: shapes, infer: {until: 3, grid: {batch: [1]}, expect: {equals_reference: '"+model+"'}}}\n"))
	if line := attributes(t, pilotlight.line("the worker has started")); line["worker"] != "reference" {
		t.Errorf("another worker: %v", line)
	}
	until(t, p.readyz(), http.StatusOK)
	for deadline := time.Now().Add(20 * time.Second); len(references(t, model)) > 0; pause(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("it still runs: %v", references(t, model))
		}
	}
}

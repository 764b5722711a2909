package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
)

// TestWhatIsImportedIsAPlan has "validate" read what "warm import" writes.
func TestWhatIsImportedIsAPlan(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "config.pbtxt"), filepath.Join(dir, "warmup.jsonl")
	text := `name: "m" model_warmup { batch_size: 1 inputs { key: "x" value: { data_type: TYPE_FP32 dims: 2 zero_data: true } } }`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(arguments ...string) (exit int, printed, complained string) {
		var stdout, stderr bytes.Buffer
		exit = execute(&stdio{out: &stdout, err: &stderr}, arguments)

		return exit, stdout.String(), stderr.String()
	}
	exit, plan, complained := run("warm", "import", "-o", out, path, "more.jsonl")
	if exit != 0 || !strings.Contains(complained, "wrote 1 requests") {
		t.Fatalf("exit code %d: %s", exit, complained)
	}
	whole := filepath.Join(dir, "pilotlight.yaml")
	if err := os.WriteFile(whole, []byte("version: 1\nbackend: {type: triton, http: localhost:8000}\n"+plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, _, complained := run("validate", "-c", whole); exit != 0 {
		t.Errorf("validate: exit code %d: %s\n%s", exit, complained, plan)
	}
	loaded, _, err := config.Load(config.Source{Path: whole})
	if err != nil {
		t.Fatal(err)
	}
	if steps := loaded.Warmup.Steps; len(steps) != 2 || steps[1].Replay == nil || strings.Join(steps[1].Replay.Files, " ") != out+" more.jsonl" {
		t.Errorf("the plan is %+v\n%s", steps, plan)
	}
	if exit, _, complained := run("warm", "import", "-o", out, path); exit != exitFailure || !strings.Contains(complained, "exists") {
		t.Errorf("a second time: exit code %d, %s", exit, complained)
	}
	if err := os.WriteFile(path, []byte("name: \"m\""), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.jsonl")
	if exit, _, complained := run("warm", "import", "-o", other, path); exit != exitFailure || !strings.Contains(complained, "no model_warmup") {
		t.Errorf("nothing to import: exit code %d, %s", exit, complained)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a failure left a file")
	}
	recorded := filepath.Join(dir, "tf_serving_warmup_requests")
	if err := os.WriteFile(recorded, []byte("no record"), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, _, complained := run("warm", "import", "-o", other, recorded); exit != exitFailure || !strings.Contains(complained, "record at byte 0") {
		t.Errorf("a broken record: exit code %d, %s", exit, complained)
	}
	if exit, _, complained := run("warm", "import", "model.onnx"); exit != exitFailure || !strings.Contains(complained, "expected a config.pbtxt") {
		t.Errorf("another file: exit code %d, %s", exit, complained)
	}
}

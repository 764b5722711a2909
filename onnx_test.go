package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/onnx"
)

func TestOnnxModelsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		arguments []string
		want      string
	}{
		{"a path", []string{"--model", "/m/a.onnx"}, "[{ /m/a.onnx}]"},
		{"several, one named", []string{"-m", "a=/m/1.onnx", "-m", "/m/b,c.onnx"}, "[{a /m/1.onnx} { /m/b,c.onnx}]"},
		{"named by the flag", []string{"-m", "/m/a.onnx", "--name", "x"}, "[{x /m/a.onnx}]"},
		{"named twice alike", []string{"-m", "x=/m/a.onnx", "--name", "x"}, "[{x /m/a.onnx}]"},
		{"named twice", []string{"-m", "y=/m/a.onnx", "--name", "x"}, `error: name a model: --name says "x" and --model says "y"`},
		{"one name for two", []string{"-m", "a.onnx", "-m", "b.onnx", "--name", "x"}, "error: name a model: --name goes with one --model only, write --model NAME=PATH"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			models, err := parseOnnx(t, test.arguments...).models()
			got := fmt.Sprint(models)
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != test.want {
				t.Errorf("got %s, expected %s", got, test.want)
			}
		})
	}
}

func TestOnnxFlags(t *testing.T) {
	t.Parallel()
	c := parseOnnx(t, "-m", "a.onnx", "--provider", "cuda", "--option", "device_id=1", "--max-body", "1MiB", "--lazy", "--allow-cpu", "--threads", "2")
	if c.Provider != onnx.CUDA || c.Option["device_id"] != "1" || int64(c.MaxBody) != 1<<20 || !c.Lazy || !c.AllowCPU || c.Threads != 2 {
		t.Errorf("got %+v", c)
	}
	if c := parseOnnx(t, "-m", "a.onnx"); c.Listen != "127.0.0.1:8000" || int64(c.MaxBody) != onnx.DefaultMaxBody || c.Threads != 1 {
		t.Errorf("defaults are %+v", c)
	}
}

func TestOnnxRefusesAnUnknownProvider(t *testing.T) {
	t.Parallel()
	_, err := read(&stdio{}, []string{"onnx", "-m", "a.onnx", "--provider", "gpu"})
	if err == nil || !strings.Contains(err.Error(), "cpu, cuda, tensorrt") {
		t.Errorf("got %v", err)
	}
}

func parseOnnx(t *testing.T, arguments ...string) *onnxCmd {
	t.Helper()
	chosen, err := read(&stdio{}, append([]string{"onnx"}, arguments...))
	if err != nil {
		t.Fatal(err)
	}
	c, isOnnx := chosen.(*onnxCmd)
	if !isOnnx {
		t.Fatalf("the arguments choose %T", chosen)
	}

	return c
}

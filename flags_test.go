package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestWhatIsRefusedAsUsage(t *testing.T) {
	t.Setenv("PILOTLIGHT_CONFIG", "")
	for _, test := range []struct {
		name      string
		arguments []string
		want      string
	}{
		{"no command", []string{}, "expected one of run, warm, demo, shapes, validate, probe, drain, xds, onnx, schema, version"},
		{"no command of a group", []string{"xds"}, "expected one of snapshot, bootstrap"},
		{"unknown command", []string{"walk"}, `unknown command "walk" for "pilotlight"`},
		{"unknown command below one that runs", []string{"warm", "later"}, `unknown command "later" for "pilotlight warm"`},
		{"unknown flag", []string{"run", "--fast"}, "unknown flag: --fast"},
		{"an argument too many", []string{"validate", "-c", "x", "y"}, `unknown command "y" for "pilotlight validate"`},
		{"no flag that must be there", []string{"validate"}, `required flag(s) "config" not set`},
		{"no model", []string{"onnx"}, `required flag(s) "model" not set`},
		{"two questions", []string{"probe", "--live", "--model", "m"}, "[live model] were all set"},
		{"no client", []string{"xds", "bootstrap"}, `expected one of envoy, grpc, got ""`},
		{"two clients", []string{"xds", "bootstrap", "envoy", "grpc"}, `expected one of envoy, grpc, got "envoy grpc"`},
		{"unknown format", []string{"xds", "snapshot", "--format", "toml"}, `"--format" flag: expected one of yaml, json, got "toml"`},
		{"bad duration", []string{"demo", "--tail", "10"}, `"--tail" flag: parse duration "10"`},
		{"bad option", []string{"onnx", "-m", "x", "--option", "device_id"}, `expected NAME=VALUE, got "device_id"`},
		{"no file to import", []string{"warm", "import"}, "expected at least one FILE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, err := command(test.arguments...)
			if code != exitUsage || out != "" || !strings.Contains(err, test.want) || !strings.HasPrefix(err, "pilotlight: ") || !strings.HasSuffix(err, " (see pilotlight --help)\n") {
				t.Errorf("exit code %d, stdout %q, stderr %q, expected code 2 and %q", code, out, err, test.want)
			}
		})
	}
}

func TestHelpOfEveryCommandGoesToTheStandardOutput(t *testing.T) {
	t.Parallel()
	var walk func(below *cobra.Command)
	walk = func(below *cobra.Command) {
		arguments := strings.Fields(below.CommandPath() + " --help")[1:]
		code, out, err := command(arguments...)
		if code != 0 || err != "" || !strings.HasPrefix(out, strings.SplitN(below.Long+below.Short, "\n", 2)[0]) || strings.Contains(out, "parent-pipe") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", arguments, code, out, err)
		}
		for _, member := range below.Commands() {
			walk(member)
		}
	}
	walk(commands(func(verb) {}))
}

func TestWhichCommandIsChosen(t *testing.T) {
	t.Setenv("PILOTLIGHT_CONFIG", "/etc/pilotlight.yaml")
	for _, test := range []struct {
		name, line string
		want       verb
	}{
		{"the environment names the configuration", "validate", &validateCmd{Config: "/etc/pilotlight.yaml"}},
		{"a flag has the last word", "validate -c mine.yaml", &validateCmd{Config: "mine.yaml"}},
		{"warm warms now", "warm -c x --backend a:1 --json", &warmCmd{Config: "x", Backend: "a:1", JSON: true}},
		{"warm now as well", "warm now -c x --only prefetch", &warmCmd{Config: "x", Only: "prefetch"}},
		{"several files", "warm import a b", &warmImportCmd{Files: []string{"a", "b"}, Out: "warmup.jsonl"}},
		{
			"defaults of xds snapshot", "xds snapshot -c x",
			&xdsSnapshotCmd{Config: "x", State: health.Ready, Format: "yaml"},
		},
		{
			"defaults of xds bootstrap", "xds bootstrap grpc -c x",
			&xdsBootstrapCmd{For: "grpc", Config: "x", Node: "pilotlight", Admin: units.Listen{Network: "tcp", Host: "localhost:9901"}},
		},
		{"defaults of the demo", "demo", &demoCmd{Rate: 100, Tail: units.Duration(10 * time.Second), Ballast: 800 << 20}},
		{
			"a list of shapes stays whole", "onnx -m x --option trt_profile_min_shapes=a:1x3,b:1 --option y=1;2",
			&onnxCmd{
				Model: []string{"x"}, Listen: "127.0.0.1:8000", Threads: 1, MaxBody: 64 << 20,
				Option: map[string]string{"trt_profile_min_shapes": "a:1x3,b:1", "y": "1;2"},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			chosen, err := read(&stdio{}, strings.Fields(test.line))
			if diff := cmp.Diff(test.want, chosen); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", test.line, err, diff)
			}
		})
	}
}

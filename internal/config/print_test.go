package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// full is a configuration in which every list and map has items.
func full() *Config {
	retries, finite := 0, false
	c := Default()
	c.Backend.HTTP = units.Address{Network: "tcp", Host: "[::1]:8000", TLS: true, Base: "/v1"}
	c.Backend.GRPC = units.Address{Network: "unix", Host: "/run/x.sock"}
	c.Backend.Workers = units.Of(4)
	c.Backend.Headers = map[string]HeaderConfig{"authorization": {File: "/run/token", Prefix: "Bearer "}, "x-a": {File: "no"}}
	c.Backend.ONNX.Options = map[string]string{"device_id": "0", "empty": ""}
	c.Models = []health.ModelConfig{{Name: "a", Required: true}, {Name: "1.10"}, {Name: "null", Required: true}}
	c.Hold.Memory = units.Of(units.Size(0))
	c.Listen.Deny = units.AutoList{"/v2/repository/*/load", "/sleep"}
	rest, infer := warmup.DefaultStep(), warmup.DefaultInfer()
	rest.Name, rest.Infer = "rest", &infer
	c.Warmup.Steps = []warmup.StepConfig{
		{Name: "up", Retries: &retries, Timeout: units.Duration(time.Second), Wait: &warmup.WaitConfig{Order: warmup.OrderInfer}},
		{
			Name: "shapes: all", Needs: []string{"up", "~"}, Timeout: units.Duration(time.Minute), Optional: true, Retries: &retries,
			Infer: &warmup.InferConfig{
				Model: "a", Until: 20, MaxRequests: 7, Expect: warmup.ExpectConfig{Status: 201, Finite: &finite},
				Grid: warmup.GridConfig{Batch: []int{1, 8}, Concurrency: []int{2}},
			},
		},
		rest,
	}
	c.Circuit.FailureRate = 0.25
	c.Telemetry.Traces = telemetry.TracesConfig{
		OTLP: units.Address{Network: "tcp", Host: "otel:4318", TLS: true, Base: "/x"}, Protocol: telemetry.ProtocolHTTP, Sample: 1,
		Propagators: []telemetry.Propagator{telemetry.B3},
	}

	return c
}

// roundTrip prints c, reads it again and compares. What has no text form that is read again is told by the file being refused.
func roundTrip(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, c *Config,
) {
	t.Helper()
	var first, second strings.Builder
	if err := Print(&first, c); err != nil {
		t.Fatalf("print: %v", err)
	}
	d := newDocument("printed.yaml")
	again := Default()
	d.readInto(again, []byte(first.String()))
	if len(d.problems) > 0 {
		t.Fatalf("what was printed is refused: %v\n%s", d.problems, first.String())
	}
	if err := Print(&second, again); err != nil {
		t.Fatalf("print: %v", err)
	}
	if diff := cmp.Diff(first.String(), second.String()); diff != "" {
		t.Fatalf("printed twice, it differs:\n%s", diff)
	}
	for name, header := range c.Backend.Headers {
		if header.Value != "" {
			header.Value = redacted
			c.Backend.Headers[name] = header
		}
	}
	if changed := Changes(c, again); len(changed) > 0 {
		t.Fatalf("printed and read again, it differs in %v:\n%s", changed, first.String())
	}
}

func TestPrintRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, Default())
	roundTrip(t, full())
	none := Default()
	none.Listen.Deny = units.AutoList{} // which is not "auto"
	roundTrip(t, none)
	roundTrip(t, Resolver{Memory: func(units.Auto[units.Size]) int64 { return 1 << 20 }, Workers: 2, Threads: 3, TokenFile: "/t", RecordFile: "/r", LogFormat: telemetry.FormatJSON}.Resolve(full()))
}

func TestPrintRoundTripOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[-?:,\[\]{}#&*!|>'"%@~ \t\n0-9a-z.+_]{0,8}`),
			rapid.SampledFrom([]string{"", "null", "~", "yes", "0x10", "1e3", ".inf", "- a", "a: b", "a #b", " a", "a ", "---", "...", "<<", "a\n b\n", "\u0085", "\u2028", "é", "😀"}),
		)
		c := Default()
		c.Models = []health.ModelConfig{{Name: text.Draw(t, "name")}}
		c.Backend.ONNX.Options = map[string]string{text.Draw(t, "key"): text.Draw(t, "value")}
		step := warmup.DefaultStep()
		step.Needs = []string{text.Draw(t, "need")}
		c.Warmup.Steps = []warmup.StepConfig{step}
		roundTrip(t, c)
	})
}

func TestPrintResolvesAuto(t *testing.T) {
	t.Parallel()
	c := Default()
	resolver := Resolver{
		Memory: func(a units.Auto[units.Size]) int64 { return int64(a.Or(64 << 20)) }, Workers: 2, Threads: 3,
		TokenFile: "/run/token", RecordFile: "/run/warm", LogFormat: telemetry.FormatJSON, Grace: units.Duration(30 * time.Second),
	}
	var printed strings.Builder
	if err := Print(&printed, resolver.Resolve(c)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"memory: 64MiB", "workers: 2", "threads: 3", "admin_token_file: /run/token", "record: /run/warm", "format: json", "limit: 23s", "first_byte: 5m", "max_body: 16MiB", "total: 0s"} {
		if !strings.Contains(printed.String(), line+"\n") {
			t.Errorf("%q is missing in\n%s", line, printed.String())
		}
	}
	if c.Hold.Memory.Set || c.Drain.Limit.Set {
		t.Error("the configuration itself was changed")
	}
	// What is left is decided again and again while running.
	if n := strings.Count(printed.String(), "auto"); n != 5 {
		t.Errorf("%d keys still say auto, expected backend.type, backend.ready_path, listen.deny, health.timeout and health.active_check:\n%s", n, printed.String())
	}
}

func TestDrainLimitFitsTheGracePeriod(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]time.Duration{0: 23 * time.Second, 30 * time.Second: 23 * time.Second, 5 * time.Minute: 293 * time.Second, 4 * time.Second: 2 * time.Second} {
		if got := (Resolver{Grace: units.Duration(grace)}).Resolve(Default()).Drain.Limit; got != units.Of(units.Duration(want)) {
			t.Errorf("grace %s gives %v, expected %s", grace, got.Value, want)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Backend.Headers = map[string]HeaderConfig{"authorization": {Value: "hunter2", Prefix: "Bearer "}}
	var printed strings.Builder
	if err := Print(&printed, c); err != nil {
		t.Fatal(err)
	}
	asJSON, err := JSON(c)
	if err != nil {
		t.Fatal(err)
	}
	std, err := json.Marshal(c) //nolint:musttag // by mistake, as somebody might
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{printed.String(), string(asJSON), string(std), fmt.Sprint(c.Backend), fmt.Sprintf("%+v %#v %s %q", c.Backend, c.Backend, c.Backend.Headers, c.Backend.Headers)} {
		if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "redacted") {
			t.Errorf("shown: %s", shown)
		}
	}
	if c.Backend.Headers["authorization"].Value.Reveal() != "hunter2" {
		t.Error("the secret itself is lost")
	}
}

func TestJSONSaysWhatPrintSays(t *testing.T) {
	t.Parallel()
	data, err := JSON(full())
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Backend struct {
			HTTP string `json:"http"`
		} `json:"backend"`
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
		Circuit struct {
			Window string `json:"window"`
		} `json:"circuit"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if document.Backend.HTTP != "https://[::1]:8000/v1" || document.Circuit.Window != "30s" || document.Models[1].Name != "1.10" {
		t.Errorf("got %+v", document)
	}
}

func TestErrorsDoNotRepeatSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, headers := range map[string]string{
		"syntax in block style": "\n    a: {value: hunter2: x",
		"syntax in a scalar":    "\n    a: hunter2: x",
		"open quote":            "\n    a: {value: 'hunter2}",
		"misspelt key":          "\n    a:\n      valu: hunter2",
		"misspelt key in flow":  " {a: {valu: hunter2}}",
		"scalar":                "\n    a: hunter2",
		"list":                  " [hunter2]",
		"list as value":         "\n    a: {value: [hunter2]}",
		"tag":                   " {a: {value: !!str hunter2}}",
		"anchor":                "\n    a: {value: &x hunter2}",
		"file and value":        "\n    a: {file: f, value: hunter2}",
		"line break":            "\n    a: {value: \"hunter2\\n\"}",
		"connection header":     "\n    host: {value: hunter2}",
		"twice":                 "\n    a: {value: hunter2, value: hunter2}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Source{Path: "p.yaml"}.load([]byte("version: 1\nbackend:\n  http: h:1\n  headers:" + headers + "\n"))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the secret is repeated:\n%s", err)
			}
		})
	}
}

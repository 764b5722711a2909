package config

import (
	"encoding"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

func TestEnumsSpeakTheirWords(t *testing.T) {
	t.Parallel()
	walk(t, BackendTypeValues(), "auto", "oip", "triton", "tfserving", "torchserve", "vllm", "sglang", "tgi", "tei", "llamacpp", "ollama", "openai", "http", "grpc")
	walk(t, IdleUnloadValues(), "keep", "allow")
	walk(t, ProviderValues(), "cpu", "cuda", "tensorrt")
	walk(t, proxy.ForwardedValues(), "append", "replace", "keep")
	walk(t, proxy.HeldPolicyValues(), "finish", "refuse")
	walk(t, proxy.TransportValues(), "direct", "standard")
	walk(t, proxy.TargetValues(), "http", "grpc")
	walk(t, xds.WhileWarmingValues(), "hold", "omit")
	walk(t, telemetry.LogLevelValues(), "debug", "info", "warn", "error")
	walk(t, telemetry.LogFormatValues(), "auto", "text", "json")
	walk(t, telemetry.ProtocolValues(), "grpc", "http")
	walk(t, telemetry.PropagatorValues(), "tracecontext", "baggage", "b3", "b3multi")
	for level, want := range map[telemetry.LogLevel]slog.Level{telemetry.LevelDebug: slog.LevelDebug, telemetry.LevelError: slog.LevelError} {
		if level.Slog() != want {
			t.Errorf("%s is %s for slog", level, level.Slog())
		}
	}
}

// walk checks that each value has the word expected and reads back from it, and that a value beyond them has none.
func walk[T interface {
	~int
	fmt.Stringer
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, values []T, words ...string,
) {
	t.Helper()
	if len(values) != len(words) {
		t.Fatalf("%T has %d values and %d words", values, len(values), len(words))
	}
	for i, value := range values {
		text, err := value.MarshalText()
		if err != nil || string(text) != words[i] || value.String() != words[i] {
			t.Errorf("%T(%d) is %q, %v, expected %q", value, int(value), text, err, words[i])
		}
		var again T
		if err := P(&again).UnmarshalText(text); err != nil || again != value {
			t.Errorf("%q reads as %v, %v", text, again, err)
		}
	}
	again := values[0]
	if err := P(&again).UnmarshalText([]byte("nonsense")); err == nil || again != values[0] {
		t.Errorf("nonsense reads as %v, %v", again, err)
	}
	_, want, _ := strings.Cut(fmt.Sprintf("%T(77)", T(77)), ".")
	if got := T(77).String(); got != want {
		t.Errorf("a value that is none prints %q, expected %q", got, want)
	}
}

package warmup

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func tensors(change func(*backend.Model)) backend.Model {
	model := backend.Model{Name: "m", Takes: []backend.Axis{backend.AxisBatch, backend.AxisDims}, Batched: true}
	change(&model)

	return model
}

func prompts(change func(*backend.Model)) backend.Model {
	model := backend.Model{
		Name: "m", Endpoints: []Endpoint{backend.EndpointNative, backend.EndpointChat},
		Takes: []backend.Axis{
			backend.AxisInputTokens, backend.AxisOutputTokens, backend.AxisTemperature, backend.AxisStream, backend.AxisRepeated,
			backend.AxisImage, backend.AxisEndpoint, backend.AxisAdapter,
		},
	}
	change(&model)

	return model
}

func TestPlanShapes(t *testing.T) {
	t.Parallel()
	nothing := func(*backend.Model) {}
	const base = "endpoint=native input_tokens=32 output_tokens=8 temperature="
	tests := []struct {
		name  string
		grid  GridConfig
		model backend.Model
		want  []string
	}{
		{"batches up to a guess", GridConfig{}, tensors(nothing), []string{"batch=1", "batch=8 ?", "batch=2 ?", "batch=4 ?"}},
		{"batches up to the server's limit", GridConfig{}, tensors(func(m *backend.Model) { m.MaxBatch, m.Preferred = 12, []int{6, 99} }), []string{"batch=1", "batch=12", "batch=2", "batch=4", "batch=6", "batch=8"}},
		{"dimensions", GridConfig{Batch: []int{2}, Dims: map[string][]int{"*.1": {64, 16, 128}}}, tensors(nothing), []string{"batch=2 *.1=16", "batch=2 *.1=128", "batch=2 *.1=64"}},
		{
			"prompts, nothing said",
			GridConfig{},
			prompts(nothing),
			[]string{
				base + "0.7 stream", "endpoint=native input_tokens=448 output_tokens=8 temperature=0.7 stream", "endpoint=native input_tokens=64 output_tokens=8 temperature=0.7 stream",
				"endpoint=native input_tokens=128 output_tokens=8 temperature=0.7 stream", "endpoint=native input_tokens=256 output_tokens=8 temperature=0.7 stream",
				base + "0 stream", base + "0.7", "endpoint=chat input_tokens=32 output_tokens=8 temperature=0.7 stream ?",
			},
		},
		{
			"prompts of a model with little room",
			GridConfig{Temperature: []float64{0}, Stream: []bool{false}, Endpoint: []Endpoint{backend.EndpointNative}},
			prompts(func(m *backend.Model) { m.MaxTokens = 64 }),
			[]string{base + "0", "endpoint=native input_tokens=49 output_tokens=8 temperature=0"},
		},
		{
			"prompts, all said",
			GridConfig{
				InputTokens: []int{16, 64}, OutputTokens: []int{4}, Temperature: []float64{0, 1}, Stream: []bool{true}, Repeated: []bool{true},
				Endpoint: []Endpoint{backend.EndpointChat}, Adapter: []string{"lora"}, Image: []bool{true},
			},
			prompts(nothing),
			[]string{
				"endpoint=chat input_tokens=16 output_tokens=4 temperature=0 stream repeated image adapter=lora", "endpoint=chat input_tokens=16 output_tokens=4 temperature=1 stream repeated image adapter=lora",
				"endpoint=chat input_tokens=64 output_tokens=4 temperature=0 stream repeated image adapter=lora", "endpoint=chat input_tokens=64 output_tokens=4 temperature=1 stream repeated image adapter=lora",
			},
		},
		{
			"embeddings have no answers",
			GridConfig{InputTokens: []int{16}, Endpoint: []Endpoint{backend.EndpointEmbeddings}},
			prompts(nothing),
			[]string{"endpoint=embeddings input_tokens=16"},
		},
		{"a sample has one shape", GridConfig{}, backend.Model{Name: "m"}, []string{"sample"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plan, err := planShapes(test.grid, test.model)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range plan {
				text := p.shape.String()
				if p.guessed {
					text += " ?"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestPlanShapesRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		grid  GridConfig
		model backend.Model
		says  string
	}{
		{"a length for tensors", GridConfig{InputTokens: []int{1}}, tensors(func(*backend.Model) {}), `has no use for "input_tokens", expected only concurrency, batch, dims`},
		{"a batch for a sample", GridConfig{Batch: []int{2}}, backend.Model{Name: "m"}, `has no use for "batch", expected only concurrency`},
		{"a batch beyond the limit", GridConfig{Batch: []int{16}}, tensors(func(m *backend.Model) { m.MaxBatch = 8 }), "batch 16 is more than the server takes (8)"},
		{"lengths beyond the limit", GridConfig{InputTokens: []int{60}, OutputTokens: []int{8}}, prompts(func(m *backend.Model) { m.MaxTokens = 64 }), "together more than the model takes (64)"},
		{"a prompt beyond the limit", GridConfig{InputTokens: []int{60}}, prompts(func(m *backend.Model) { m.MaxInput = 50 }), "input_tokens 60 is more than the model takes (50)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := planShapes(test.grid, test.model)
			if !errors.Is(err, backend.ErrNoRequest) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, expected one that says %q", err, test.says)
			}
		})
	}
}

func TestPlanThatDoesNotFitTheServerType(t *testing.T) {
	t.Parallel()
	plan, err := NewPlan([]StepConfig{{Name: "s", Infer: &InferConfig{Grid: GridConfig{Batch: []int{1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Fits("oip"); err != nil {
		t.Errorf("oip: %v", err)
	}
	if err := plan.Fits("vllm"); err == nil || !strings.Contains(err.Error(), `step "s": grid: server type vllm has no use for "batch"`) {
		t.Errorf("vllm: %v", err)
	}
	for _, grid := range []GridConfig{{Batch: []int{0}}, {Dims: map[string][]int{"ids": {1}}}, {Dims: map[string][]int{"ids.1": {}}}, {Temperature: []float64{-1}}} {
		if _, err := NewPlan([]StepConfig{{Name: "s", Infer: &InferConfig{Grid: grid}}}); err == nil {
			t.Errorf("%+v is taken", grid)
		}
	}
}

// TestGridKeepsToWhatTheServerHoldsAtOnce has slots that share a cache of 512 tokens, as llama.cpp's do.
func TestGridKeepsToWhatTheServerHoldsAtOnce(t *testing.T) {
	t.Parallel()
	s, err := newStep(StepConfig{Name: "s", Infer: &InferConfig{Grid: GridConfig{
		InputTokens: []int{32, 400}, Temperature: []float64{0}, Stream: []bool{true}, Endpoint: []Endpoint{backend.EndpointNative},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	base, higher, err := grid(s, prompts(func(m *backend.Model) { m.MaxTokens, m.MaxTogether = 512, 512 }), 4, nil)
	if err != nil || len(base) != 2 || len(higher) != 2 {
		t.Fatalf("%d and %d shapes, %v", len(base), len(higher), err)
	}
	for _, s := range slices.Concat(base, higher) {
		want := ShapeWaiting
		if s.concurrency*(s.shape.InputTokens+s.shape.OutputTokens) > 512 {
			want = ShapeRefused
		}
		if s.report.State != want {
			t.Errorf("%s: %v, expected %v", s.report.Shape(), s.report.State, want)
		}
	}
}

func TestEndpointsOfTensors(t *testing.T) {
	t.Parallel()
	model := backend.Model{Name: "m", Takes: []backend.Axis{backend.AxisBatch, backend.AxisDims, backend.AxisEndpoint}, Endpoints: []Endpoint{backend.EndpointHTTP, backend.EndpointGRPC}, Batched: true, MaxBatch: 2}
	for _, test := range []struct {
		name string
		grid GridConfig
		want string
	}{
		{"derived", GridConfig{}, "batch=1 endpoint=http, batch=2 endpoint=http, batch=1 endpoint=grpc (guessed)"},
		{"named", GridConfig{Batch: []int{1}, Endpoint: []Endpoint{backend.EndpointGRPC, backend.EndpointHTTP}}, "batch=1 endpoint=grpc, batch=1 endpoint=http"},
		{"chat", GridConfig{Endpoint: []Endpoint{backend.EndpointChat}}, `grid: model m has no endpoint "chat", expected any of [http grpc]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plan, err := planShapes(test.grid, model)
			var shapes []string
			for _, p := range plan {
				shapes = append(shapes, p.shape.String()+map[bool]string{true: " (guessed)"}[p.guessed])
			}
			got := strings.Join(shapes, ", ")
			if err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, test.want) {
				t.Errorf("got %s, expected %s", got, test.want)
			}
		})
	}
	plan, err := NewPlan([]StepConfig{{Name: "s", Infer: &InferConfig{Grid: GridConfig{Endpoint: []Endpoint{backend.EndpointGRPC}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{"oip": "", "triton": "", "vllm": `no endpoint "grpc"`, "tfserving": `no use for "endpoint"`} {
		if err := plan.Fits(name); (says == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, expected one that says %q", name, err, says)
		}
	}
}

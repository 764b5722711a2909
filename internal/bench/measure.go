package main

import (
	"encoding/json"
	"math"
	"time"
)

// measure is a figure of an arm.
type measure struct {
	id    string
	title string
	unit  string
	// higher says that more is better.
	higher bool
}

// The measures that are no figure of the load.
const (
	idleMemory   = "idle_rss"
	loadedMemory = "c32_rss"
)

// benchCase is one kind of load with the measures that it yields.
type benchCase struct {
	name string
	job  job
	// grpc says that the load goes to the gRPC address.
	grpc   bool
	yields []yield
}

// yield is a measure with how it is read off a result.
type yield struct {
	measure

	// of is nil for a measure that is not read off the result.
	of func(r result) float64
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func p50(id, title string) yield {
	return yield{measure{id: id, title: title, unit: "µs"}, func(r result) float64 { return micros(r.P50) }}
}

func p99(id, title string) yield {
	return yield{measure{id: id, title: title, unit: "µs"}, func(r result) float64 { return micros(r.P99) }}
}

func speed(id, title string) yield {
	return yield{measure{id: id, title: title, unit: "/s", higher: true}, result.perSecond}
}

func processor(id, title string) yield {
	return yield{measure{id: id, title: title, unit: "ms"}, result.perThousand}
}

// allCases are measured in this order: memory is that of a fresh process, and then that after the first real load.
var allCases = []benchCase{
	{name: "idle", yields: []yield{{measure{id: idleMemory, title: "RSS, idle", unit: "MB"}, nil}}},
	{name: "c1", job: job{Kind: closedLoop, Size: 1 << 10, Concurrency: 1, Warm: 200 * time.Millisecond, For: 800 * time.Millisecond}, yields: []yield{
		p50("c1_p50", "1 KiB, c=1: p50"),
	}},
	{name: "c32", job: job{Kind: closedLoop, Size: 1 << 10, Concurrency: 32, Warm: 300 * time.Millisecond, For: 1200 * time.Millisecond}, yields: []yield{
		speed("c32_rps", "1 KiB, c=32: requests/s"),
		p99("c32_p99", "1 KiB, c=32: p99"),
		processor("c32_cpu", "1 KiB, c=32: CPU per 1,000 requests"),
		{measure{id: loadedMemory, title: "RSS after c=32", unit: "MB"}, nil},
	}},
	{name: "r100", job: job{Kind: openLoop, Size: 1 << 10, Concurrency: 64, Rate: 100, Warm: 100 * time.Millisecond, For: 2200 * time.Millisecond}, yields: []yield{
		p50("r100_p50", "1 KiB, 100/s: p50"), p99("r100_p99", "1 KiB, 100/s: p99"), processor("r100_cpu", "1 KiB, 100/s: CPU per 1,000 requests"),
	}},
	{name: "r1000", job: job{Kind: openLoop, Size: 1 << 10, Concurrency: 64, Rate: 1000, Warm: 100 * time.Millisecond, For: 1500 * time.Millisecond}, yields: []yield{
		p50("r1000_p50", "1 KiB, 1,000/s: p50"), p99("r1000_p99", "1 KiB, 1,000/s: p99"), processor("r1000_cpu", "1 KiB, 1,000/s: CPU per 1,000 requests"),
	}},
	{name: "64k", job: job{Kind: closedLoop, Size: 64 << 10, Concurrency: 8, Warm: 100 * time.Millisecond, For: 600 * time.Millisecond}, yields: []yield{
		speed("64k_rps", "64 KiB, c=8: requests/s"),
	}},
	{name: "1m", job: job{Kind: closedLoop, Size: 1 << 20, Concurrency: 4, Warm: 100 * time.Millisecond, For: 600 * time.Millisecond}, yields: []yield{
		speed("1m_rps", "1 MiB, c=4: requests/s"),
	}},
	{name: "16m", job: job{Kind: closedLoop, Size: 16 << 20, Concurrency: 2, Warm: 200 * time.Millisecond, For: 800 * time.Millisecond}, yields: []yield{
		speed("16m_rps", "16 MiB, c=2: requests/s"),
	}},
	{name: "sse", job: job{Kind: tokens, Size: 1 << 10, Concurrency: 50, Rate: 20, Warm: 200 * time.Millisecond, For: 1500 * time.Millisecond}, yields: []yield{
		p50("sse_p50", "SSE, 50 streams of 20 tokens/s: a token's way, p50"), p99("sse_p99", "SSE, 50 streams of 20 tokens/s: a token's way, p99"),
	}},
	{name: "grpc1", grpc: true, job: job{Kind: grpcUnary, Size: 1 << 10, Concurrency: 1, Warm: 200 * time.Millisecond, For: 500 * time.Millisecond}, yields: []yield{
		p50("grpc1_p50", "gRPC unary 1 KiB, c=1: p50"),
	}},
	{name: "grpc32", grpc: true, job: job{Kind: grpcUnary, Size: 1 << 10, Concurrency: 32, Warm: 200 * time.Millisecond, For: 600 * time.Millisecond}, yields: []yield{
		speed("grpc32_rps", "gRPC unary 1 KiB, c=32: calls/s"),
	}},
	{name: "grpcstream", grpc: true, job: job{Kind: grpcStream, Size: 1 << 10, Concurrency: 8, Warm: 200 * time.Millisecond, For: 600 * time.Millisecond}, yields: []yield{
		speed("grpcstream_mps", "gRPC, 8 bidirectional streams of 1 KiB: messages/s"),
	}},
}

// figures are the values of the rounds by arm and measure. A round without a value has none there, so that rounds stay comparable.
type figures map[string]map[string][]value

// value is a figure of one round; NaN is none.
type value float64

// MarshalJSON implements [json.Marshaler].
func (v value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte("null"), nil
	}

	return json.Marshal(float64(v))
}

// put notes the value of a round.
func (f figures) put(arm, id string, round int, figure float64) {
	if f[arm] == nil {
		f[arm] = map[string][]value{}
	}
	for len(f[arm][id]) <= round {
		f[arm][id] = append(f[arm][id], value(math.NaN()))
	}
	f[arm][id][round] = value(figure)
}

// rounds are the values of the rounds, NaN where there is none.
func (f figures) rounds(arm, id string) []float64 {
	values := make([]float64, len(f[arm][id]))
	for i, v := range f[arm][id] {
		values[i] = float64(v)
	}

	return values
}

// known are the values of the rounds that have one.
func (f figures) known(arm, id string) []float64 {
	var values []float64
	for _, v := range f.rounds(arm, id) {
		if !math.IsNaN(v) {
			values = append(values, v)
		}
	}

	return values
}

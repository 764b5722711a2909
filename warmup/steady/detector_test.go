package steady_test

import (
	"math"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

const ms = time.Millisecond

func feed(d *steady.Detector, n int, latency time.Duration) steady.Result {
	result := d.Result()
	for range n {
		result = d.Add(latency)
	}

	return result
}

func TestDetector(t *testing.T) {
	t.Parallel()
	alternating := func(n int, a, b time.Duration) []time.Duration {
		out := make([]time.Duration, n)
		for i := range out {
			out[i] = a
			if i%3 == 2 {
				out[i] = b
			}
		}

		return out
	}
	falling := make([]time.Duration, 0, 60)
	for i := range 60 {
		falling = append(falling, 200*ms-time.Duration(i)*3*ms)
	}
	repeat := func(latency time.Duration, n int) []time.Duration { return alternating(n, latency, latency) }
	tests := []struct {
		name      string
		latencies []time.Duration
		max       int
		want      steady.Result
		n         int
		cold      int
	}{
		{"nothing seen", nil, 0, steady.Undecided, 0, 0},
		{"one short of a clean streak", repeat(20*ms, 13), 0, steady.Undecided, 13, 0},
		{"a clean streak", repeat(20*ms, 14), 0, steady.Converged, 14, 0},
		{"a cold first request", append([]time.Duration{2 * time.Second}, repeat(20*ms, 13)...), 0, steady.Converged, 14, 1},
		{"a spike starts the streak again", append(append(repeat(20*ms, 12), 100*ms), repeat(20*ms, 9)...), 0, steady.Undecided, 22, 1},
		{"the streak after a spike", append(append(repeat(20*ms, 12), 100*ms), repeat(20*ms, 10)...), 0, steady.Converged, 23, 1},
		{"still falling", falling, 0, steady.Undecided, 60, 0},
		{"two modes", alternating(40, 20*ms, 40*ms), 0, steady.Multimodal, 40, 0},
		{"two modes too far apart", alternating(40, 20*ms, 100*ms), 0, steady.Undecided, 40, 13},
		{"the bound is reached", falling, 60, steady.NotConverged, 60, 0},
		{"noise below a millisecond is no spike", alternating(30, 300*time.Microsecond, 900*time.Microsecond), 0, steady.Converged, 30, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := steady.New(steady.Settings{Max: test.max})
			got := d.Result()
			for _, latency := range test.latencies {
				got = d.Add(latency)
			}
			if got != test.want || d.Result() != test.want {
				t.Errorf("result %v, expected %v", got, test.want)
			}
			if report := d.Report(); report.N != test.n || report.ColdEvents != test.cold || report.Result != test.want {
				t.Errorf("report %+v, expected n %d and %d cold events", report, test.n, test.cold)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	d := steady.New(steady.Settings{})
	if got := d.Report().UpperColdRate; got != 1 {
		t.Errorf("nothing seen: upper bound %v on the cold rate, expected 1", got)
	}
	d.Add(time.Second)
	feed(d, 12, 20*ms)
	d.Add(22 * ms)
	report := d.Report()
	want := steady.Report{Result: steady.Converged, N: 14, Level: 20 * ms, P95: 22 * ms, First: time.Second, Slowest: time.Second, ColdEvents: 1, Clean: 10}
	want.UpperColdRate = report.UpperColdRate
	if report != want {
		t.Errorf("got %+v, expected %+v", report, want)
	}
	for clean, rate := range map[int]float64{10: 0.26, 59: 0.05, 0: 1} {
		if got := steady.UpperColdRate(clean); math.Abs(got-rate) > 0.005 {
			t.Errorf("%d clean requests: upper bound %.3f, expected %.2f", clean, got, rate)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	five := func(latency time.Duration) []time.Duration {
		return []time.Duration{latency, latency, latency, latency, latency}
	}
	tests := []struct {
		name   string
		sweep  []time.Duration
		want   bool
		result steady.Result
	}{
		{"as before", five(20 * ms), true, steady.Converged},
		{"within a tenth", five(21 * ms), true, steady.Converged},
		{"moved up", five(24 * ms), false, steady.Undecided},
		{"moved down", five(15 * ms), false, steady.Undecided},
		{"one spike", []time.Duration{20 * ms, 20 * ms, 90 * ms, 20 * ms, 20 * ms}, false, steady.Undecided},
		{"nothing measured", nil, false, steady.Converged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := steady.New(steady.Settings{})
			if got := feed(d, 14, 20*ms); got != steady.Converged {
				t.Fatalf("result %v before the verification", got)
			}
			if got := d.Verify(test.sweep); got != test.want {
				t.Errorf("verified %v, expected %v", got, test.want)
			}
			if d.Result() != test.result {
				t.Errorf("result %v, expected %v", d.Result(), test.result)
			}
			if test.result != steady.Undecided {
				return
			}
			if got := feed(d, 9, test.sweep[0]); got != steady.Undecided {
				t.Errorf("%v after nine requests, expected another ten", got)
			}
			if got := feed(d, 1, test.sweep[0]); got != steady.Converged {
				t.Errorf("%v after ten requests at the level it moved to", got)
			}
		})
	}
}

func TestVerifyAcceptsEveryMode(t *testing.T) {
	t.Parallel()
	d := steady.New(steady.Settings{})
	for i := range 40 {
		d.Add(time.Duration(20+20*(i%2)) * ms)
	}
	if d.Result() != steady.Multimodal {
		t.Fatalf("result %v, expected two modes", d.Result())
	}
	for _, mode := range []time.Duration{20 * ms, 40 * ms} {
		if !d.Verify([]time.Duration{mode, mode, mode, mode, mode}) {
			t.Errorf("five requests at %v are no move: it is one of the modes", mode)
		}
	}
	if d.Verify([]time.Duration{20 * ms, 20 * ms, 300 * ms, 20 * ms, 20 * ms}) {
		t.Error("a spike beyond all modes was taken for one")
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	d := steady.New(steady.Settings{})
	feed(d, 14, 20*ms)
	d.Reject()
	if got := feed(d, 20, 20*ms); got != steady.NotConverged {
		t.Errorf("result %v after the budget was used up", got)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	d := steady.New(steady.Settings{Max: math.MaxInt})
	latency := 20 * ms
	if got := testing.AllocsPerRun(1000, func() {
		latency += 13 * time.Microsecond
		d.Add(latency % (25 * ms))
	}); got != 0 {
		t.Errorf("%v allocations per latency", got)
	}
}

func TestResultValues(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, value := range steady.ResultValues() {
		text, err := value.MarshalText()
		if err != nil || string(text) != value.String() || seen[value.String()] {
			t.Errorf("value %d is written %q, %v", int(value), text, err)
		}
		seen[value.String()] = true
	}
	if got := steady.Result(len(steady.ResultValues())).String(); got != "Result(4)" {
		t.Errorf("a value beyond the last is called %q: is it missing from ResultValues?", got)
	}
	if !steady.Converged.Steady() || !steady.Multimodal.Steady() || steady.Undecided.Steady() || steady.NotConverged.Steady() {
		t.Error("steady means converged or multimodal")
	}
}

func BenchmarkAdd(b *testing.B) {
	d := steady.New(steady.Settings{Max: math.MaxInt})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Add(20*ms + time.Duration(i%97)*100*time.Microsecond)
	}
}

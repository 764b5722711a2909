package coldstart_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
)

func answered(shape string, due, latency time.Duration) coldstart.Sample {
	return coldstart.Sample{Shape: shape, Due: due, Done: due + latency, Status: http.StatusOK, Tries: 1, Right: true}
}

func TestPercentileIsByNearestRank(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	for _, test := range []struct {
		name   string
		values []time.Duration
		p      float64
		want   time.Duration
	}{
		{"none", nil, 50, 0},
		{"one", []time.Duration{7}, 99, 7},
		{"median", hundred, 50, 50 * time.Millisecond},
		{"99", hundred, 99, 99 * time.Millisecond},
		{"99.9", hundred, 99.9, 100 * time.Millisecond},
		{"lowest", hundred, 0, time.Millisecond},
		{"highest", hundred, 100, 100 * time.Millisecond},
	} {
		if got := coldstart.Percentile(test.values, test.p); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestSlowIsJudgedByShape(t *testing.T) {
	t.Parallel()
	steady := coldstart.Steady{"small": {P50: time.Millisecond, P99: 2 * time.Millisecond}, "big": {P50: 10 * time.Millisecond, P99: 20 * time.Millisecond}}
	samples := coldstart.Samples{
		answered("small", 0, 900*time.Millisecond),
		answered("small", time.Second, 6*time.Millisecond), // exactly at the limit is not beyond it
		answered("small", 2*time.Second, 7*time.Millisecond),
		answered("big", 3*time.Second, 7*time.Millisecond),
		answered("big", 4*time.Second, 61*time.Millisecond),
		answered("unknown", 5*time.Second, time.Hour),
	}
	want := coldstart.Samples{samples[0], samples[2], samples[4]}
	if diff := cmp.Diff(want, samples.Slow(steady, coldstart.Limit{Factor: 3})); diff != "" {
		t.Error(diff)
	}
	want = coldstart.Samples{samples[0], samples[4]}
	if diff := cmp.Diff(want, samples.Slow(steady, coldstart.Limit{Factor: 3, Floor: 50 * time.Millisecond})); diff != "" {
		t.Error(diff)
	}
}

func TestArmIsJudgedByItsOwnWarmLevel(t *testing.T) {
	t.Parallel()
	samples := coldstart.Samples{answered("a", 0, time.Second), answered("a", time.Second, 30*time.Millisecond), answered("a", 2*time.Second, 200*time.Millisecond)}
	for i := range 100 { // surely warm, but for one hiccup of the machine
		samples = append(samples, answered("a", 6*time.Second+time.Duration(i)*10*time.Millisecond, 5*time.Millisecond))
	}
	samples[len(samples)-1].Done += 40 * time.Millisecond
	arm := coldstart.ArmOf(coldstart.Run{Samples: samples, Ready: time.Second}, 10*time.Second, coldstart.Limit{Factor: 3, Floor: 50 * time.Millisecond})
	if arm.SlowAfterReady != 1 || arm.WithoutFloor != 3 || arm.SurelyWarm != 1 || arm.FirstOverSteady != 6 {
		t.Errorf("got slow %d, without floor %d, surely warm %d, first over steady %v; want 1, 3, 1 and 6", arm.SlowAfterReady, arm.WithoutFloor, arm.SurelyWarm, arm.FirstOverSteady)
	}
}

func TestArmCountsWhatUsersSaw(t *testing.T) {
	t.Parallel()
	samples := coldstart.Samples{
		answered("a", 0, time.Second),
		{Shape: "a", Due: time.Second, Done: 2 * time.Second, Status: http.StatusServiceUnavailable},
		{Shape: "a", Due: time.Second, Done: 3 * time.Second, Err: "connection refused"},
		{Shape: "a", Due: time.Second, Done: 5 * time.Second, Status: http.StatusOK, Hold: 3 * time.Second},
	}
	arm := coldstart.ArmOf(coldstart.Run{Samples: samples}, time.Hour, coldstart.Limit{Factor: 3})
	if arm.Requests != 4 || arm.Succeeded != 2 || arm.Failed != 2 || arm.Correct != 1 || arm.Held != 1 || arm.HoldMaxS != 3 || arm.SlowestS != 4 {
		t.Errorf("got %+v", arm)
	}
}

func TestSteadyLeavesFailuresOut(t *testing.T) {
	t.Parallel()
	samples := coldstart.Samples{
		answered("a", 0, time.Millisecond), answered("a", 0, 3*time.Millisecond), answered("a", 0, 2*time.Millisecond),
		{Shape: "a", Done: time.Hour, Err: "timed out"},
	}
	want := coldstart.Steady{"a": {P50: 2 * time.Millisecond, P99: 3 * time.Millisecond, N: 3}}
	if diff := cmp.Diff(want, coldstart.SteadyOf(samples)); diff != "" {
		t.Error(diff)
	}
}

func TestServerTiming(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		line []string
		want time.Duration
	}{
		{"none", nil, 0},
		{"ours", []string{"hold;dur=1250.5, backend;dur=3"}, 1250500 * time.Microsecond},
		{"second line", []string{"db;dur=1", "cache, hold;desc=x;dur=2"}, 2 * time.Millisecond},
		{"not a number", []string{"hold;dur=long"}, 0},
		{"another name", []string{"holding;dur=7"}, 0},
	} {
		if got := coldstart.ServerTiming(http.Header{"Server-Timing": test.line}, "hold"); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

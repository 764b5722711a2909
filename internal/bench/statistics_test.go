package main

import (
	"math"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	tests := []struct {
		name    string
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		{"one sample", []time.Duration{7}, 99, 7},
		{"middle of three", []time.Duration{3, 1, 2}, 50, 2},
		{"of four, the second covers half", []time.Duration{4, 3, 2, 1}, 50, 2},
		{"99th of a hundred", hundred, 99, 99},
		{"beyond the 99th of ten", []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 99, 10},
		{"the least", hundred, 0, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := percentile(append([]time.Duration(nil), test.samples...), test.p); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestMedianLeavesTheOrder(t *testing.T) {
	t.Parallel()
	values := []float64{9, 1, 5, 3}
	if got := median(values); got != 4 {
		t.Errorf("got %g, want 4", got)
	}
	if values[0] != 9 {
		t.Errorf("the values were sorted: %v", values)
	}
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	if got := bootstrap([]float64{2, 2, 2, 2}); got != (interval{2, 2, 2}) {
		t.Errorf("equal rounds: got %+v, want no width", got)
	}
	rounds := []float64{1.9, 1.7, 1.8, 1.75, 1.85, 2.5, 1.1}
	got := bootstrap(rounds)
	if got.Median != 1.8 || got.Low < 1.1 || got.Low >= 1.8 || got.High <= 1.8 || got.High > 2.5 {
		t.Errorf("got %+v", got)
	}
	// With 7 rounds, the 95 % interval of the median excludes the one outlier on each side in well over 95 % of draws.
	if got.Low == 1.1 || got.High == 2.5 {
		t.Errorf("one outlier decides the bounds: %+v", got)
	}
	if again := bootstrap(rounds); again != got {
		t.Errorf("the same rounds gave %+v, then %+v", got, again)
	}
}

func TestRatiosArePairedByRound(t *testing.T) {
	t.Parallel()
	got := ratios([]float64{10, math.NaN(), 30, 40, 50}, []float64{5, 5, 0, 10})
	if len(got) != 2 || got[0] != 2 || got[1] != 4 {
		t.Errorf("got %v, want those of the first and the fourth round", got)
	}
}

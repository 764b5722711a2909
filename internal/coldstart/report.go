package coldstart

import (
	"math"
	"time"
)

// Report is what a comparison found, in the form in which it is written as JSON. Times are in the unit that their key names.
type Report struct {
	// Coldness says what the backend's coldness consists of.
	Coldness string `json:"coldness"`
	// SlowIs says from when on a request counts as slow.
	SlowIs  string               `json:"slow_is"`
	Arms    map[string]ArmReport `json:"arms"`
	Restart *RestartReport       `json:"restart,omitempty"`
	Hang    *HangReport          `json:"hang,omitempty"`
	Long    *LongReport          `json:"long_answer,omitempty"`
}

// LevelReport is a [Level].
type LevelReport struct {
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
	N     int     `json:"n"`
}

// ArmReport is what one arm's users saw.
type ArmReport struct {
	Requests  int `json:"requests"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Correct counts the answers that equal those of a direct, warm call.
	Correct int `json:"correct"`
	// ReadyS is when the arm's signal said that requests may come, counted from the backend's start.
	ReadyS float64 `json:"ready_s"`
	// SlowAfterReady counts the requests that arrived after ready and were slow all the same.
	SlowAfterReady int `json:"slow_after_ready"`
	// WithoutFloor counts them without the limit's floor, and SurelyWarm those among them that came in the second half of the tail: what the machine did by itself.
	WithoutFloor int     `json:"slow_without_floor"`
	SurelyWarm   int     `json:"slow_without_floor_when_surely_warm"`
	SlowestS     float64 `json:"slowest_s"`
	// SlowestAfterReadyS is the slowest among the requests that arrived after ready.
	SlowestAfterReadyS float64 `json:"slowest_after_ready_s"`
	// FirstOverSteady is the latency of the first request of a shape after ready over the warm median of that shape, for the worst shape.
	FirstOverSteady float64     `json:"first_over_steady"`
	Held            int         `json:"held"`
	HoldMaxS        float64     `json:"hold_max_s"`
	AfterReady      Percentiles `json:"after_ready"`
	// Steady is the warm level of each shape, measured late in the same arm.
	Steady map[string]LevelReport `json:"steady"`
	// ExtraNotReadyS is how much longer than the server's own readiness the arm was not ready.
	ExtraNotReadyS *float64 `json:"extra_not_ready_s,omitempty"`
	// AddedP50US is what the median request costs more than a direct one, both warm and measured side by side.
	AddedP50US *float64 `json:"added_p50_us,omitempty"`
}

// Percentiles of the latencies of requests that arrived after ready.
type Percentiles struct {
	P50MS  float64 `json:"p50_ms"`
	P99MS  float64 `json:"p99_ms"`
	P999MS float64 `json:"p999_ms"`
}

// RestartReport is what users saw of a backend that was killed under load.
type RestartReport struct {
	Requests int `json:"requests"`
	// InFlightFailed counts the requests that the backend had taken when it was killed.
	InFlightFailed int `json:"in_flight_failed"`
	Held           int `json:"held"`
	// Refused counts the requests that were neither taken by the killed backend nor answered.
	Refused     int     `json:"refused"`
	ReadyAgainS float64 `json:"ready_again_s"`
}

// HangReport is how long it took to notice that inferences hang while the health endpoint says 200.
type HangReport struct {
	Simulated string  `json:"simulated"`
	NoticedS  float64 `json:"noticed_s"`
	// HealthSaid is what the backend's own ready endpoint answered at the moment of noticing.
	HealthSaid int `json:"health_said"`
	// ReadyAgainS is how long it took to be ready again once the fault had ended.
	ReadyAgainS float64 `json:"ready_again_s"`
}

// LongReport is what happened to a long answer of a healthy backend.
type LongReport struct {
	AnswerS   float64 `json:"answer_s"`
	LeftAlone bool    `json:"left_alone"`
}

// ArmOf reads an arm's report off its run. What came after half of the tail is taken for surely warm; the warm levels are measured on it.
func ArmOf(run Run, tail time.Duration, limit Limit) ArmReport {
	samples, after := run.Samples, run.Samples.DueFrom(run.Ready)
	warm := run.Samples.DueFrom(run.Ready + tail/2)
	steady := SteadyOf(warm)
	first, _ := after.FirstOverSteady(steady)
	bare := Limit{Factor: limit.Factor}

	return ArmReport{
		Requests:           len(samples),
		Succeeded:          len(samples.Succeeded()),
		Failed:             len(samples) - len(samples.Succeeded()),
		Correct:            len(samples.Right()),
		ReadyS:             Seconds(run.Ready),
		SlowAfterReady:     len(after.Slow(steady, limit)),
		WithoutFloor:       len(after.Slow(steady, bare)),
		SurelyWarm:         len(warm.Slow(steady, bare)),
		SlowestS:           Seconds(samples.Slowest()),
		SlowestAfterReadyS: Seconds(after.Slowest()),
		FirstOverSteady:    round(first, 10),
		Held:               len(samples.Held()),
		HoldMaxS:           Seconds(samples.LongestHold()),
		Steady:             steady.Report(),
		AfterReady:         Percentiles{P50MS: MS(after.Percentile(50)), P99MS: MS(after.Percentile(99)), P999MS: MS(after.Percentile(99.9))},
	}
}

// Report returns the warm levels in the form in which they are written.
func (s Steady) Report() map[string]LevelReport {
	report := make(map[string]LevelReport, len(s))
	for shape, level := range s {
		report[shape] = LevelReport{P50MS: MS(level.P50), P99MS: MS(level.P99), N: level.N}
	}

	return report
}

// Seconds returns d in seconds, to the millisecond.
func Seconds(d time.Duration) float64 { return round(d.Seconds(), 1000) }

// MS returns d in milliseconds, to the microsecond.
func MS(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 1000) }

func round(value, steps float64) float64 { return math.Round(value*steps) / steps }

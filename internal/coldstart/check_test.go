package coldstart_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
)

func soundReport() coldstart.Report {
	return coldstart.Report{
		Arms: map[string]coldstart.ArmReport{
			"direct":       {Requests: 10, Succeeded: 9},
			"server_ready": {Requests: 10, Succeeded: 10, SlowAfterReady: 4, FirstOverSteady: 50},
			"pilotlight":   {Requests: 10, Succeeded: 10, Correct: 10, Held: 3},
		},
		Restart: &coldstart.RestartReport{InFlightFailed: 1, Held: 20},
		Hang:    &coldstart.HangReport{NoticedS: 15, HealthSaid: 200},
		Long:    &coldstart.LongReport{AnswerS: 15, LeftAlone: true},
	}
}

func TestCheckFindsEachBrokenClaim(t *testing.T) {
	t.Parallel()
	if err := soundReport().Check(); err != nil {
		t.Fatalf("a sound report: %v", err)
	}
	arm := func(name string, change func(*coldstart.ArmReport)) func(*coldstart.Report) {
		return func(r *coldstart.Report) {
			arms := maps.Clone(r.Arms)
			changed := arms[name]
			change(&changed)
			arms[name] = changed
			r.Arms = arms
		}
	}
	for _, test := range []struct {
		name   string
		change func(*coldstart.Report)
		want   string
	}{
		{"nothing measured", func(r *coldstart.Report) { *r = coldstart.Report{} }, "no requests were sent"},
		{"a failure", arm("pilotlight", func(a *coldstart.ArmReport) { a.Succeeded-- }), "9 of 10 requests succeeded"},
		{"a wrong answer", arm("pilotlight", func(a *coldstart.ArmReport) { a.Correct-- }), "9 of 10 answers"},
		{"a slow one", arm("pilotlight", func(a *coldstart.ArmReport) { a.SlowAfterReady++ }), "1 slow requests"},
		{"none held", arm("pilotlight", func(a *coldstart.ArmReport) { a.Held = 0 }), "no request was held"},
		{"control not slow", arm("server_ready", func(a *coldstart.ArmReport) { a.SlowAfterReady = 0 }), "proves nothing"},
		{"control not cold", arm("server_ready", func(a *coldstart.ArmReport) { a.FirstOverSteady = 4.9 }), "not cold"},
		{"no restart", func(r *coldstart.Report) { r.Restart = nil }, "restart"},
		{"one refused", func(r *coldstart.Report) { r.Restart.Refused = 1 }, "expected none refused"},
		{"hang noticed late", func(r *coldstart.Report) { r.Hang.NoticedS = 21 }, "within 20 s"},
		{"health was honest", func(r *coldstart.Report) { r.Hang.HealthSaid = 503 }, "says 200"},
		{"not left alone", func(r *coldstart.Report) { r.Long.LeftAlone = false }, "left alone"},
		{"not long", func(r *coldstart.Report) { r.Long.AnswerS = 3 }, "proves nothing"},
	} {
		report := soundReport()
		test.change(&report)
		if err := report.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error about %q", test.name, err, test.want)
		}
	}
}

package health

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestC66RestartIsAskedForByTheOperatorsPolicyOnly: no load, however long, is a reason, and nothing is in the time after the start of the backend.
func TestC66RestartIsAskedForByTheOperatorsPolicyOnly(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy RestartBackend
		state  State
		code   Code
		due    bool
	}{
		{"never", RestartNever, Unhealthy, CodeFatalBackend, false},
		{"fatal", RestartOnFatal, Unhealthy, CodeFatalBackend, true},
		{"a stall is not fatal", RestartOnFatal, Unhealthy, CodeStalled, false},
		{"stall", RestartOnStall, Unhealthy, CodeStalled, true},
		{"fatal is worse than a stall", RestartOnStall, Unhealthy, CodeFatalBackend, true},
		{"failures", RestartOnStall, Unhealthy, CodeBreakerOpen, false},
		{"an old condition", RestartOnStall, Ready, CodeStalled, false},
		{"lost", RestartOnStall, Cold, CodeBackendLost, false},
		{"loading", RestartOnStall, Starting, CodeModelNotLoaded, false},
		{"warming", RestartOnStall, Warming, CodeWarmFailed, false},
		{"leaving", RestartOnStall, Draining, CodeStalled, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMachine(Settings{})
				if test.state != Starting {
					warm(t, m)
					if test.state == Warming {
						must(t, m, "", Cold)
					}
					if test.state != Ready {
						must(t, m, "", test.state)
					}
				}
				m.Raise("", test.code, "secret text")
				birth := NewBirth(func() string { return "7" }, func(string) (time.Time, bool) { return time.Time{}, false })
				birth.Seen()
				handler := NewEndpoints(EndpointSettings{Machine: m, Restart: &Restart{Policy: test.policy, Grace: time.Minute, Machine: m, Birth: birth}})
				time.Sleep(time.Minute - time.Nanosecond)
				if status, body, _ := ask(t, handler, "GET", "/livez/backend"); status != 200 || !strings.HasPrefix(body, "ok: ") {
					t.Errorf("within the grace: %d %q", status, body)
				}
				time.Sleep(time.Nanosecond)
				status, body, _ := ask(t, handler, "GET", "/livez/backend")
				if (status == 503) != test.due || (status == 200) == test.due || strings.Contains(body, "secret") {
					t.Errorf("after the grace: %d %q, expected due to be %t", status, body, test.due)
				}
				if status, _, _ := ask(t, handler, "GET", "/livez"); status != 200 {
					t.Errorf("our own liveness: %d", status)
				}
			})
		})
	}
}

func TestWithoutAPolicyTheBackendLives(t *testing.T) {
	m := NewMachine(Settings{})
	warm(t, m)
	must(t, m, "", Unhealthy)
	m.Raise("", CodeFatalBackend, "")
	if status, body, _ := ask(t, NewEndpoints(EndpointSettings{Machine: m}), "GET", "/livez/backend"); status != 200 {
		t.Errorf("got %d %q", status, body)
	}
}

func TestFatalTexts(t *testing.T) {
	for text, fatal := range map[string]bool{
		`infer m: status 500: "CUDA error: an illegal memory access was encountered"`: true,
		"CUDA_ERROR_ILLEGAL_ADDRESS":                             true,
		"RuntimeError: CUDA error: device-side assert triggered": true,
		"vllm.v1.engine.exceptions.EngineDeadError":              true,
		"CUDA out of memory. Tried to allocate 2 GiB":            false,
		"stalled: no answer within 5s":                           false,
		"":                                                       false,
	} {
		if IsFatal(text) != fatal {
			t.Errorf("%q: expected %t", text, fatal)
		}
	}
}

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestTimeoutsAreReadAndWrittenInTheirOwnForm(t *testing.T) {
	t.Parallel()
	const none = -1
	grpc, envoy, own := timeoutHeaders(true, "X-Own")[0], timeoutHeaders(true, "X-Own")[1], timeoutHeaders(true, "X-Own")[2]
	for _, test := range []struct {
		name   string
		header timeoutHeader
		text   string
		want   time.Duration
		after  time.Duration // the time spent
		left   string
	}{
		{"hours", grpc, "2H", 2 * time.Hour, time.Second, "7199000m"},
		{"minutes", grpc, "1M", time.Minute, time.Second, "59000000u"},
		{"seconds", grpc, "30S", 30 * time.Second, 12_300_456_789 * time.Nanosecond, "17699543u"},
		{"milliseconds", grpc, "90m", 90 * time.Millisecond, time.Millisecond, "89000000n"},
		{"microseconds", grpc, "99999999u", 99_999_999 * time.Microsecond, 0, "99999999u"},
		{"nanoseconds", grpc, "5n", 5, 1, "4n"},
		{"nothing left", grpc, "0n", 0, 0, "0n"},
		{"as long as can be written", grpc, "87600H", 87600 * time.Hour, 0, "5256000M"},
		{"longer", grpc, "99999999H", none, 0, ""},
		{"nine digits", grpc, "999999999n", none, 0, ""},
		{"no unit", grpc, "30", none, 0, ""},
		{"no number", grpc, "S", none, 0, ""},
		{"a small letter", grpc, "30s", none, 0, ""},
		{"negative", grpc, "-1S", none, 0, ""},
		{"signed", grpc, "+1S", none, 0, ""},
		{"spaces", grpc, " 1S", none, 0, ""},
		{"Envoy's", envoy, "15000", 15 * time.Second, 1500 * time.Millisecond, "13500"},
		{"rounded down, but never to nothing", envoy, "2", 2 * time.Millisecond, 1900 * time.Microsecond, "1"},
		{"Envoy's zero is none", envoy, "0", none, 0, ""},
		{"no fraction", envoy, "1.5", none, 0, ""},
		{"too large", envoy, "99999999999999999999", none, 0, ""},
		{"a duration", own, "2.5s", 2500 * time.Millisecond, 700 * time.Millisecond, "1.8s"},
		{"a long one", own, "1h30m", 90 * time.Minute, 30 * time.Minute, "1h"},
		{"a rest below a millisecond", own, "1ms", time.Millisecond, 900 * time.Microsecond, "100µs"},
		{"no unit", own, "30", none, 0, ""},
		{"zero is none", own, "0s", none, 0, ""},
		{"a word", own, "soon", none, 0, ""},
	} {
		t.Run(test.header.name+" "+test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := test.header.said(http.Header{test.header.name: {test.text}})
			if ok != (test.want != none) || (ok && got != test.want) {
				t.Fatalf("%q: %s, %v, want %s", test.text, got, ok, test.want)
			}
			if !ok {
				return
			}
			left := test.header.write(got - test.after)
			if left != test.left {
				t.Errorf("%q after %s: %s, want %s", test.text, test.after, left, test.left)
			}
			// A rest is never longer than it was, and reads back.
			if again, ok := test.header.parse(left); got > 0 && (!ok || again > max(got-test.after, time.Millisecond)) {
				t.Errorf("%s reads back as %s, %v", left, again, ok)
			}
		})
	}
	if _, ok := envoy.said(http.Header{envoy.name: {"1", "2"}}); ok {
		t.Error("one of two values was believed")
	}
}

// TestC16HoldEndsAtTheCallersDeadline has callers who say, each in its own way, that they wait for 3 seconds, and as the control some who say nothing that is understood.
func TestC16HoldEndsAtTheCallersDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, header, value string
		assume              time.Duration
		want                time.Duration
		reason              string
	}{
		{"Envoy's header", "X-Envoy-Expected-Rq-Timeout-Ms", "3000", 0, 3 * time.Second, "deadline_exceeded"},
		{"the user's header", "x-timeout", "3s", 0, 3 * time.Second, "deadline_exceeded"},
		{"what is said, not what is assumed", "x-timeout", "3s", time.Second, 3 * time.Second, "deadline_exceeded"},
		{"what is assumed", "", "", 3 * time.Second, 3 * time.Second, "deadline_exceeded"},
		{"longer than max_wait", "x-timeout", "21s", 0, 20 * time.Second, "hold_timeout"},
		{"nothing", "", "", 0, 20 * time.Second, "hold_timeout"},
		{"nothing that is understood", "x-timeout", "3", 0, 20 * time.Second, "hold_timeout"},
		{"a gRPC timeout on a plain request", "Grpc-Timeout", "3S", 0, 20 * time.Second, "hold_timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, end := memoryRig(t, echo, func(s *Settings, g *GateSettings) {
					g.Hold.MaxWait.Start = units.Duration(20 * time.Second)
					s.Hold.DeadlineHeader, s.Hold.AssumeDeadline = "x-timeout", units.Duration(test.assume)
				})
				defer end()
				var wait sync.WaitGroup
				for range 5 {
					wait.Go(func() {
						begun := time.Now()
						got := r.sendWith(t, test.header, test.value)
						status := reasons[DeadlineExceeded].status
						if test.reason == "hold_timeout" {
							status = reasons[HoldTimeout].status
						}
						if took := time.Since(begun); took != test.want || got.status != status || !strings.Contains(got.body, `"`+test.reason+`"`) {
							t.Errorf("%s: %+v", took, got)
						}
					})
					time.Sleep(100 * time.Millisecond)
				}
				wait.Wait()
				synctest.Wait()
				if !r.quiet() {
					t.Errorf("left behind: %+v", r.gate.Snapshot())
				}
			})
		})
	}
}

// sendWith sends a small body with one header more.
func (r *rig) sendWith(t *testing.T, header, value string) answer {
	t.Helper()
	host := r.front
	if host == "" {
		host = "front"
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if header != "" {
		request.Header.Set(header, value)
	}
	res, err := r.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer shut(res.Body)
	text, err := io.ReadAll(res.Body)

	return answer{res.StatusCode, res.Header, string(text), err}
}

func TestWhatIsLeftOfADeadlineIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ header, said, held string }{
		{"X-Envoy-Expected-Rq-Timeout-Ms", "5000", "3500"},
		{"X-Timeout", "5s", "3.5s"},
		{"X-Timeout", "soon", "soon"},
		{"X-Other-Timeout", "5s", "5s"},
	} {
		t.Run(test.header+" "+test.said, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, end := memoryRig(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, strings.Join(r.Header.Values(test.header), " and "))
				}, func(s *Settings, _ *GateSettings) {
					s.Hold.DeadlineHeader, s.Hold.AssumeDeadline = "x-timeout", units.Duration(time.Minute)
				})
				defer end()
				time.AfterFunc(1500*time.Millisecond, func() { open(r.gate) })
				if got := r.sendWith(t, test.header, test.said); got.body != test.held {
					t.Errorf("after the hold the backend got %+v, want %s", got, test.held)
				}
				if got := r.sendWith(t, test.header, test.said); got.body != test.said {
					t.Errorf("without a hold the backend got %+v, want %s", got, test.said)
				}
			})
		})
	}
}

// TestADeadlineThatPassesElsewhereThanInLineIsNoticed has a backend that takes two seconds to refuse a connection, so that the request comes back to a gate that passes.
func TestADeadlineThatPassesElsewhereThanInLineIsNoticed(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[string]string{"1s": "deadline_exceeded", "1m": "unreachable"} {
		synctest.Test(t, func(t *testing.T) {
			var dials atomic.Int64
			r, end := memoryRig(t, echo, func(s *Settings, _ *GateSettings) {
				s.ConnectTimeout, s.Hold.DeadlineHeader = 0, "x-timeout"
				s.DialContext = func(context.Context, string, string) (net.Conn, error) {
					dials.Add(1)
					<-time.After(2 * time.Second)

					return nil, errors.New("refused")
				}
			})
			defer end()
			passing(r.gate)
			if got := r.sendWith(t, "x-timeout", timeout); !strings.Contains(got.body, want) || (dials.Load() == 1) != (want == "deadline_exceeded") {
				t.Errorf("%s: %+v after %d attempts", timeout, got, dials.Load())
			}
		})
	}
}

// TestC16GRPCHoldEndsAtTheCallersDeadline speaks HTTP/2 by itself: a gRPC client would see its own deadline first.
func TestC16GRPCHoldEndsAtTheCallersDeadline(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		said <- r.Header.Get("Grpc-Timeout")
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "0")
	}), nil)
	r.useHTTP2(t)
	call := func(timeout string) answer {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.front+"/s/m", http.NoBody)
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Grpc-Timeout", timeout)
		res, err := r.client.Do(request)
		if err != nil {
			return answer{err: err}
		}
		defer shut(res.Body)
		_, err = io.Copy(io.Discard, res.Body)

		return answer{status: res.StatusCode, header: res.Header, err: err}
	}
	begun := time.Now()
	if got := call("100m"); got.header.Get("Grpc-Status") != fmt.Sprint(grpcDeadlineExceeded) || !strings.Contains(got.header.Get("Grpc-Message"), "deadline_exceeded") || time.Since(begun) < 100*time.Millisecond {
		t.Errorf("after %s: %+v", time.Since(begun), got)
	}
	if got := call("0n"); got.header.Get("Grpc-Status") != fmt.Sprint(grpcDeadlineExceeded) {
		t.Errorf("a deadline that has passed: %+v", got)
	}
	go func() {
		until(t, "held", r.held(1))
		time.AfterFunc(50*time.Millisecond, func() { open(r.gate) })
	}()
	if got := call("60S"); got.header.Get("Grpc-Status") != "0" {
		t.Errorf("%+v", got)
	}
	if left, ok := parseGRPCTimeout(<-said); !ok || left > time.Minute-50*time.Millisecond || left < 50*time.Second {
		t.Errorf("the backend was told %s, %v", left, ok)
	}
	until(t, "quiet", r.quiet)
}

// TestRequestsThatWouldBeHeldInVainAreRefusedAtOnce has a warm-up of which 10 seconds are left. The controls wait: with fail_fast off, with time enough, and without an estimate.
func TestRequestsThatWouldBeHeldInVainAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		slow      bool // fail_fast is off
		maxWait   time.Duration
		deadline  string
		remaining time.Duration
		want      time.Duration
		status    int
		reason    string
	}{
		{"the deadline is too early", false, 30 * time.Second, "9s", 10 * time.Second, 0, http.StatusServiceUnavailable, "not_in_time"},
		{"the hold is too short", false, 9 * time.Second, "", 10 * time.Second, 0, http.StatusServiceUnavailable, "not_in_time"},
		{"time enough", false, 30 * time.Second, "11s", 10 * time.Second, 10 * time.Second, http.StatusOK, ""},
		{"just enough", false, 30 * time.Second, "10.001s", 10 * time.Second, 10 * time.Second, http.StatusOK, ""},
		{"off", true, 30 * time.Second, "9s", 10 * time.Second, 9 * time.Second, http.StatusGatewayTimeout, "deadline_exceeded"},
		{"no estimate", false, 9 * time.Second, "", 0, 9 * time.Second, http.StatusServiceUnavailable, "hold_timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				estimate := func() time.Duration { return max(0, test.remaining-time.Since(begun)) }
				r, end := memoryRig(t, echo, func(s *Settings, g *GateSettings) {
					s.Hold.DeadlineHeader = "x-timeout"
					g.Hold.FailFast = !test.slow
					g.Hold.MaxWait.Start = units.Duration(test.maxWait)
					g.RetryAfter, g.Remaining = estimate, estimate
				})
				defer end()
				warm := time.AfterFunc(10*time.Second, func() { open(r.gate) })
				defer warm.Stop()
				header := "x-timeout"
				if test.deadline == "" {
					header = ""
				}
				got := r.sendWith(t, header, test.deadline)
				if took := time.Since(begun); took != test.want || got.status != test.status || !strings.Contains(got.body, test.reason) {
					t.Errorf("after %s: %+v", took, got)
				}
				if after := got.header.Get("Retry-After"); test.reason == "not_in_time" && after != "10" {
					t.Errorf("come back after %s", after)
				}
				if s := r.gate.Snapshot(); (s.Outcomes[Hopeless] == 1) != (test.reason == "not_in_time") {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestAnOpenGateAsksForNoEstimate has an estimate that says that it takes for ever.
func TestAnOpenGateAsksForNoEstimate(t *testing.T) {
	t.Parallel()
	g := testGate(func(s *GateSettings) {
		s.Remaining = func() time.Duration { return time.Hour }
		s.Concurrency.Ramp.Start = 1
	})
	var first, second Ticket
	if got := g.Wait(t.Context(), &first, nil); got != Hopeless {
		t.Fatalf("holding: %s", got)
	}
	open(g)
	if got := g.Wait(t.Context(), &first, nil); got != Proceed {
		t.Fatalf("ramping: %s", got)
	}
	ended := make(chan Outcome)
	waiter(t.Context(), g, &second, func(o Outcome) { ended <- o })
	until(t, "in line behind the first", func() bool { return g.Snapshot().Held == 1 })
	g.Good(&first)
	g.Done(&first)
	if got := <-ended; got != Proceed {
		t.Errorf("in line while ramping: %s", got)
	}
	g.Done(&second)
}

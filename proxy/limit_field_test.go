package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// TestC22WithALimitOfFour holds 100 requests for a backend that refuses the fifth at once. Twenty newcomers a second come during the release, and one exchange is stuck.
func TestC22WithALimitOfFour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var working, most, served, newcomers, overtaken atomic.Int64
		stuck := make(chan struct{})
		r, end := memoryRig(t, func(w http.ResponseWriter, r *http.Request) {
			n := working.Add(1)
			defer working.Add(-1)
			for old := most.Load(); n > old; old = most.Load() {
				most.CompareAndSwap(old, n)
			}
			body, _ := io.ReadAll(r.Body)
			switch {
			case n > 4:
				w.WriteHeader(http.StatusTooManyRequests)

				return
			case string(body) == "stuck":
				<-stuck
			case string(body) == "late":
				newcomers.Add(1)
			case newcomers.Load() > 3: // so many may be on their way beside one of the held
				overtaken.Add(1)
			}
			time.Sleep(50 * time.Millisecond)
			served.Add(1)
		}, func(_ *Settings, g *GateSettings) { g.Concurrency.Limit = units.Of(4) })
		defer end()
		var wait sync.WaitGroup
		send := func(body string) {
			wait.Go(func() {
				if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader(body)); got.status != http.StatusOK {
					t.Errorf("%s: %+v", body, got)
				}
			})
			synctest.Wait()
		}
		send("stuck")
		for range 99 {
			send("held")
		}
		open(r.gate)
		for range 40 {
			send("late")
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		if n := served.Load(); n != 139 {
			t.Errorf("%d of 139 were served beside the one that is stuck", n)
		}
		close(stuck)
		wait.Wait()
		if most.Load() != 4 || overtaken.Load() > 0 {
			t.Errorf("at most %d at once, %d of the held came after newcomers", most.Load(), overtaken.Load())
		}
		if s := r.gate.Snapshot(); !r.quiet() || s.Mode != Passing {
			t.Errorf("left behind: %+v", s)
		}
	})
}

// TestRefusedGoesBackToTheLineIfSoWished has a backend that refuses the first time.
func TestRefusedGoesBackToTheLineIfSoWished(t *testing.T) {
	t.Parallel()
	for requeue, want := range map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			r, end := memoryRig(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) == 1 {
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}, func(s *Settings, _ *GateSettings) { s.Hold.RequeueRefused = requeue })
			defer end()
			time.AfterFunc(time.Second, func() { open(r.gate) })
			if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("x")); got.status != want {
				t.Errorf("requeue %t: %+v", requeue, got)
			}
		})
	}
}

// TestC41SaturationIsNotSickness refuses every other request for a minute, with and without a limit: no bad verdict, and the gate stays where it is.
func TestC41SaturationIsNotSickness(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]units.Auto[int]{"no limit": units.Of(0), "fixed": units.Of(8), "adaptive": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
				var asked, failed, refused atomic.Int64
				r, end := memoryRig(t, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(10 * time.Millisecond)
					switch asked.Add(1) % 4 {
					case 1:
						w.WriteHeader(http.StatusTooManyRequests)
					case 3:
						w.Header().Set("Retry-After", "1")
						w.WriteHeader(http.StatusServiceUnavailable)
						_, _ = io.WriteString(w, "queue full")
					}
				}, func(s *Settings, g *GateSettings) {
					s.Breaker = breaker
					s.Suspect = func() { t.Error("suspected") }
					g.Concurrency.Limit = limit
				})
				defer end()
				passing(r.gate)
				var wait sync.WaitGroup
				for range 600 {
					wait.Go(func() {
						switch got := r.send(t.Context(), http.MethodGet, "/", nil); got.status {
						case http.StatusOK:
						case http.StatusTooManyRequests, http.StatusServiceUnavailable:
							refused.Add(1)
						default:
							failed.Add(1)
						}
					})
					time.Sleep(100 * time.Millisecond)
					if mode := r.gate.Mode(); mode != Passing {
						t.Fatalf("the gate is %s", mode)
					}
					if s := breaker.Snapshot(); s.State != circuit.Closed || s.Window.Bad > 0 {
						t.Fatalf("%+v", s)
					}
				}
				wait.Wait()
				if failed.Load() > 0 || refused.Load() == 0 {
					t.Errorf("%d failed, %d refused", failed.Load(), refused.Load())
				}
			})
		})
	}
}

// TestC47LocalExhaustionIsNoVerdict has no descriptor for a connection, with a breaker that is closed and one that is half-open, and permits that are all out.
func TestC47LocalExhaustionIsNoVerdict(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]circuit.State{"closed": circuit.Closed, "half-open": circuit.HalfOpen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := circuit.DefaultConfig()
				config.HalfOpen.Synthetic = false // users are the trials
				breaker := circuit.New(circuit.Settings{Config: config})
				running, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { _ = breaker.Run(running) }()
				if state == circuit.HalfOpen {
					breaker.Trip("for a test")
					for breaker.Snapshot().State != state {
						time.Sleep(time.Second)
					}
				}
				var exhausted atomic.Bool
				exhausted.Store(true)
				occupied := make(chan struct{})
				r, end := memoryRig(t, func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/long" {
						<-occupied
					}
				}, func(s *Settings, g *GateSettings) {
					s.Breaker = breaker
					s.Suspect = func() { t.Error("suspected") }
					s.Lost = func(error) { t.Error("lost") }
					g.Concurrency.Limit = units.Of(1)
					dial := s.DialContext
					s.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						if exhausted.Load() {
							return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
						}

						return dial(ctx, network, address)
					}
				})
				defer end()
				passing(r.gate)
				verdicts := func() (good, bad int) {
					s := breaker.Snapshot()

					return s.Window.Good + s.Trials.Good, s.Window.Bad + s.Trials.Bad
				}
				for range 30 {
					if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, `"local_exhausted"`) {
						t.Errorf("%+v", got)
					}
					time.Sleep(time.Second)
				}
				if good, bad := verdicts(); good+bad > 0 || breaker.Snapshot().State != state {
					t.Errorf("%d good and %d bad verdicts, %s", good, bad, breaker.Snapshot().State)
				}
				exhausted.Store(false)
				var wait sync.WaitGroup
				wait.Go(func() { r.send(t.Context(), http.MethodGet, "/long", nil) })
				synctest.Wait()
				if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, `"crowd_timeout"`) {
					t.Errorf("%+v", got)
				}
				if good, bad := verdicts(); good+bad > 0 {
					t.Errorf("%d good and %d bad verdicts of one that never had a permit", good, bad)
				}
				close(occupied)
				wait.Wait()
			})
		})
	}
}

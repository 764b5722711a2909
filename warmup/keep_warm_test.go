package warmup_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// TestC31ServerThatCoolsDownIsKeptWarm has a server that takes 20 ms if it was asked within the last 5 s, and 400 ms else; after a minute somebody
// asks. Without keep-warm, which is off by default, it is slow: the control.
func TestC31ServerThatCoolsDownIsKeptWarm(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		slow  bool
	}{"kept warm": {4 * time.Second, false}, "control": {0, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				last := time.Now()
				infer := func(int, int) (time.Duration, int, string) {
					took := 20 * ms
					if time.Since(last) > 5*time.Second {
						took = 400 * ms
					}
					last = time.Now().Add(took)

					return took, http.StatusOK, ""
				}
				f := newFake(t, map[string]*fakeModel{"m": {infer: infer, shape: "[1,2]"}})
				runner, _, _ := newRunner(t, f, warmup.Settings{})
				if _, err := runner.Run(anHour(t)); err != nil {
					t.Fatal(err)
				}
				var user atomic.Int64 // when the last user was answered, in nanoseconds since 1970
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if test.after > 0 {
						warmup.KeepWarm{
							After: test.after, Serving: func() bool { return true }, Synthetic: runner.Synthetic,
							Idle: func() time.Duration { return time.Since(time.Unix(0, user.Load())) },
						}.Run(ctx)
					}
				}()
				time.Sleep(time.Minute)
				ask := func() time.Duration {
					begin := time.Now()
					if err := runner.SyntheticModel(ctx, "m"); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					user.Store(time.Now().UnixNano())

					return time.Since(begin)
				}
				before := f.count("POST /v2/models/m/infer")
				if took := ask(); (took > 100*ms) != test.slow {
					t.Errorf("the user waited %v", took)
				}
				if test.after > 0 && (before < 19+14 || before > 19+16) {
					t.Errorf("%d requests in an idle minute, expected one each 4 s", before-19)
				}
				// While users ask each second, nobody else does.
				before = f.count("POST /v2/models/m/infer")
				for range 30 {
					time.Sleep(time.Second)
					ask()
				}
				if sent := f.count("POST /v2/models/m/infer") - before; sent != 30 {
					t.Errorf("%d requests for 30 of users", sent)
				}
				cancel()
				<-ended
			})
		})
	}
}

func TestKeepWarmLeavesThoseAloneThatDoNotServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		warmup.KeepWarm{
			After: time.Second, Serving: func() bool { return false }, Idle: func() time.Duration { return time.Hour },
			Synthetic: func(context.Context) error {
				t.Error("a server that does not serve was asked")

				return nil
			},
		}.Run(ctx)
	})
}

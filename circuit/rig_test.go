package circuit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

var errSick = errors.New("model is sick")

// rig is a breaker inside a synctest bubble, with a backend whose answers to synthetic requests the test decides.
type rig struct {
	*Breaker

	t     *testing.T
	began time.Time

	mu     sync.Mutex
	answer func(ctx context.Context) error
	asked  []time.Duration // when synthetic requests were sent
	heard  []string        // every call of Moved and UsersFailing
	at     []time.Duration // and when
}

func passes(context.Context) error { return nil }
func fails(context.Context) error  { return errSick }
func hangs(ctx context.Context) error {
	<-ctx.Done()

	return ctx.Err()
}

// newRig makes the breaker; without a first answer there is no synthetic request at all. Run it with run.
func newRig(t *testing.T, c Config, answer func(context.Context) error) *rig {
	t.Helper()
	r := &rig{t: t, began: time.Now(), answer: answer}
	s := Settings{
		Config: c,
		Moved: func(from, to State, reason string) {
			r.hear(fmt.Sprintf("%s > %s: %s", from, to, reason))
		},
		UsersFailing: func(on bool, text string) {
			r.hear(fmt.Sprintf("users failing %t: %s", on, text))
		},
	}
	if answer != nil {
		s.Synthetic = func(ctx context.Context) error {
			r.mu.Lock()
			r.asked = append(r.asked, r.clock())
			f := r.answer
			r.mu.Unlock()

			return f(ctx)
		}
	}
	r.Breaker = New(s)

	return r
}

// run starts Run until the test ends.
func (r *rig) run() *rig {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run ended with %v", err)
		}
	})
	synctest.Wait()

	return r
}

func (r *rig) clock() time.Duration { return time.Since(r.began) }

func (r *rig) hear(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard, r.at = append(r.heard, what), append(r.at, r.clock())
}

func (r *rig) answers(f func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *rig) timesAsked() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return len(r.asked)
}

// wait lets time pass in the bubble and everything come to rest.
func (r *rig) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// allow begins an exchange that must be let through.
func (r *rig) allow() Exchange {
	r.t.Helper()
	e, err := r.Allow()
	if err != nil {
		r.t.Fatalf("Allow: %v while %s", err, r.state)
	}

	return e
}

// users are n exchanges that end at once with the verdict.
func (r *rig) users(n int, v Verdict) {
	r.t.Helper()
	for range n {
		e := r.allow()
		e.Start(v)
		e.End(false)
	}
	synctest.Wait()
}

func (r *rig) wantState(want State) {
	r.t.Helper()
	synctest.Wait()
	if got := r.Snapshot().State; got != want {
		r.t.Fatalf("state is %s at %s, expected %s; heard %q", got, r.clock(), want, r.all())
	}
}

func (r *rig) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.heard)
}

// wantHeard checks every call so far, each by a beginning.
func (r *rig) wantHeard(want ...string) {
	r.t.Helper()
	synctest.Wait()
	got := r.all()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		r.t.Fatalf("heard %q, expected %q", got, want)
	}
}

// heardAt is when the last call was heard.
func (r *rig) heardAt() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.at[len(r.at)-1]
}

// opened returns a breaker that a bad rate and a failed synthetic request have opened.
func (r *rig) opened() *rig {
	r.t.Helper()
	if r.synthetic != nil {
		r.answers(fails)
	}
	r.users(r.config.MinRequests, Bad)
	r.wantState(Open)

	return r
}

// stallOff is the default but for the stalled rule, for tests about something else.
func stallOff() Config {
	c := DefaultConfig()
	c.StalledAfter = 0

	return c
}

func seconds(n float64) units.Duration { return units.Duration(n * float64(time.Second)) }

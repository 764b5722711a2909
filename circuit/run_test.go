package circuit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), nil).run()
		if err := r.Run(t.Context()); err == nil {
			t.Error("a second Run did not say that there is a first")
		}
	})
}

func TestTheEndOfRunIsNoVerdict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), hangs)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.users(20, Bad)
		r.wait(time.Second)
		if r.timesAsked() != 1 {
			t.Fatal("nothing was asked")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.wantState(Closed)
		// Another Run goes on where the first one stopped.
		r.run()
		r.wait(10 * time.Second)
		r.wantState(Open)
	})
}

func TestRunEndsAlthoughASyntheticRequestDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		r := newRig(t, DefaultConfig(), func(context.Context) error { <-deaf; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.users(20, Bad)
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > leaveWithin {
			t.Errorf("Run took %s to end", took)
		}
		close(deaf)
	})
}

func TestNothingBlocksWithoutRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), nil)
		for range 100 {
			r.Force(Open)
			r.Force(Closed)
			r.Reset()
		}
		r.opened()
		if got := len(r.notices); got > maxNotices {
			t.Errorf("%d notices kept, expected at most %d", got, maxNotices)
		}
		r.run()
		// Only the latest matters, but what is told is a chain.
		heard := r.all()
		if len(heard) == 0 {
			t.Fatal("nothing was told")
		}
		if last := heard[len(heard)-1]; last[:len("closed > open")] != "closed > open" {
			t.Errorf("the last word is %q", last)
		}
	})
}

func TestACallerMayCallTheBreakerFromMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		called := 0
		b = New(Settings{Config: DefaultConfig(), Moved: func(_, to State, _ string) {
			called++
			if b.Snapshot().State == Open && to == Open {
				b.Reset()
			}
			if e, err := b.Allow(); err == nil {
				e.End(false)
			}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = b.Run(ctx) }()
		b.Force(Open)
		synctest.Wait()
		if called != 2 || b.Snapshot().State != Closed {
			t.Errorf("called %d times and %s, expected twice and closed", called, b.Snapshot().State)
		}
		cancel()
	})
}

func TestTheSyntheticTimeoutIsAskedEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), hangs)
		r.timeout = func() time.Duration { return 17 * time.Second }
		r.run()
		r.users(20, Bad)
		r.wait(16 * time.Second)
		r.wantState(Closed)
		r.wait(2 * time.Second)
		r.wantState(Open)
	})
}

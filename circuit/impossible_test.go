package circuit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// impossible is what asks an application for which nobody has given a sample.
func impossible(context.Context) error { return fmt.Errorf("warm: %w", ErrNoSynthetic) }

// TestWhereNothingCanBeAskedUsersDecide has the rules of a backend for which no synthetic request is possible, which turns out when the first one is made.
func TestWhereNothingCanBeAskedUsersDecide(t *testing.T) {
	t.Parallel()
	t.Run("one slow request is left alone", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), impossible).run()
			r.users(3, Good)
			e := r.allow()
			r.wait(5 * time.Minute)
			r.wantHeard()
			e.Start(Good)
			e.End(false)
			r.users(3, Good)
			r.wantState(Closed)
		})
	})
	t.Run("three silent ones open, and users heal", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), impossible).run()
			r.users(3, Good)
			for range 3 {
				r.allow()
			}
			r.wait(time.Minute)
			if heard := r.all(); len(heard) == 0 || !strings.Contains(heard[0], "open") {
				t.Fatalf("heard %q", heard)
			}
			for range 600 { // users come back, and are the trials
				if e, err := r.Allow(); err == nil {
					e.Start(Good)
					e.End(false)
				}
				r.wait(100 * time.Millisecond)
			}
			r.wantState(Closed)
		})
	})
	t.Run("a bad rate opens", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), impossible).run()
			r.users(DefaultConfig().MinRequests, Bad)
			r.wait(time.Second)
			if heard := r.all(); len(heard) == 0 || !strings.Contains(heard[0], "no synthetic request is possible") {
				t.Errorf("heard %q", heard)
			}
		})
	})
}

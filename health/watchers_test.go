package health

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pass lets time go by in a bubble, and everybody do what is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestWatchersGetTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := NewMachine(Settings{})
		slow, other := m.Watch(ctx), m.Watch(t.Context())
		if first := <-other; first.State != Starting {
			t.Errorf("the first snapshot is %s", first.State)
		}
		must(t, m, "", Warming)
		must(t, m, "", Ready)
		m.Raise("", CodeWorkersUnknown, "")
		if got := <-slow; got.State != Ready || len(got.Moves) != 2 || len(got.Conditions) != 1 {
			t.Errorf("a slow reader gets %s with %d moves", got.State, len(got.Moves))
		}
		cancel()
		synctest.Wait()
		if got, open := <-slow; open {
			t.Errorf("after its context ended a reader gets %s", got.State)
		}
		must(t, m, "", Cold)
		if got := <-other; got.State != Cold {
			t.Errorf("the other reader gets %s", got.State)
		}
	})
}

func TestWatchWithAnEndedContextIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		channel := NewMachine(Settings{}).Watch(ctx)
		synctest.Wait()
		<-channel
		if _, open := <-channel; open {
			t.Error("the channel is open")
		}
	})
}

func TestRemindSpeaksWhileNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := &strings.Builder{}
		m := NewMachine(Settings{Logger: slog.New(slog.NewTextHandler(lines, nil))})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		go m.Remind(ctx, 30*time.Second)
		count := func() int { return strings.Count(lines.String(), "pod is not ready") }
		pass(95 * time.Second)
		if n := count(); n != 3 || !strings.Contains(lines.String(), "for=1m30s") {
			t.Errorf("%d reminders after 95 s: %s", n, lines)
		}
		warm(t, m)
		pass(95 * time.Second)
		m.MoveAll(Draining, "test")
		pass(95 * time.Second)
		if n := count(); n != 3 {
			t.Errorf("%d reminders although the pod was ready, then draining", n)
		}
	})
}

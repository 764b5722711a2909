package pages

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceKeepsToTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited, start := pace{rate: 100}, time.Now()
		for range 11 {
			if err := limited.wait(t.Context(), 50); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the eleventh 50 bytes began after %v, expected 5s at 100 a second", took)
		}
		free := pace{}
		_ = free.wait(t.Context(), 1<<40)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("without a rate it waits, until %v", took)
		}
	})
}

func TestBrake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b brake
		if err := b.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.set("processes wait for memory")
		gone := make(chan error, 1)
		go func() { gone <- b.wait(t.Context()) }()
		synctest.Wait()
		if len(gone) > 0 {
			t.Fatal("it does not pause")
		}
		b.set("")
		if err := <-gone; err != nil {
			t.Fatal(err)
		}
		b.set("something else reads")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.wait(ctx); err == nil || !strings.Contains(err.Error(), "while paused: something else reads") {
			t.Errorf("got %v", err)
		}
	})
}

// TestRivalIsWhoReadsSomethingElse plays the kernel's counter of a disk.
func TestRivalIsWhoReadsSomethingElse(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	device, path := filepath.Join(folder, "stat"), filepath.Join(folder, "w.bin")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	now := time.Unix(0, 0)
	r := &rival{device: device, from: &source{file: file}, size: 1 << 20, since: now}
	sectors := 0
	look := func(after time.Duration, mib int) string {
		sectors += mib << 11
		text := "1 2 " + strconv.Itoa(sectors) + " 4 5"
		if err := os.WriteFile(device, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(after)

		return r.look(now)
	}
	steps := []struct {
		name   string
		mib    int
		pauses bool
	}{
		{"the file is in the page cache, so that these are ours", 1, false},
		{"little", 0, false},
		{"much", 10, true},
		{"a short rest", 0, true},
		{"much again", 10, true},
	}
	for _, step := range steps {
		if why := look(10*time.Millisecond, step.mib); (why != "") != step.pauses {
			t.Errorf("%s: it says %q", step.name, why)
		}
	}
	if why := look(time.Second, 1); why != "" {
		t.Errorf("after a second of rest it says %q", why)
	}
}

// TestPressureHasAThreshold needs the kernel's own figures, which say nothing while nobody waits.
func TestPressureHasAThreshold(t *testing.T) {
	t.Parallel()
	var p pressure
	start := time.Now()
	p.look(start)
	p.stalled[0] -= 50 * time.Millisecond // as if somebody had waited since
	if why := p.look(start.Add(pressureEvery)); why != "processes wait for memory" {
		t.Errorf("half of the time somebody waits, and it says %q", why)
	}
	p.stalled[0] -= time.Millisecond
	if why := p.look(start.Add(2 * pressureEvery)); why != "" {
		t.Errorf("hardly anybody waits, and it says %q", why)
	}
}

func TestGuardLooksAgain(t *testing.T) {
	t.Parallel()
	room := Room{Bytes: 1 << 30, Of: "the machine"}
	looks := 0
	g := guard{left: func() Room { looks++; return room }}
	for range 32 {
		if err := g.take(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if looks != 2 {
		t.Errorf("it looked %d times for 64 MiB, expected one look each %d", looks, stretch)
	}
	room.Bytes = 80 << 20 // somebody took the rest
	if err := g.take(chunk); err == nil || err.Error() != "after 64MiB: the machine leaves 16MiB, of which 16MiB stay free; more would push out what others need" {
		t.Errorf("got %v", err)
	}
}

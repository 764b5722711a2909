package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a Watcher over a file in a synctest bubble.
type watched struct {
	t      *testing.T
	file   string
	signal chan os.Signal

	mu      sync.Mutex // the fields below are written by the Watcher's goroutine
	log     bytes.Buffer
	applied []*Config
	counts  []string
	fail    error
}

// Write is the log's writer.
func (w *watched) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.log.Write(line)
}

func (w *watched) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.log.String()
}

// last returns what was applied last.
func (w *watched) last() *Config {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.applied) == 0 {
		w.t.Fatal("nothing was applied")
	}

	return w.applied[len(w.applied)-1]
}

func (w *watched) failWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

// watch starts a Watcher over a file with that text; it ends with the test.
func watch(t *testing.T, text string) *watched {
	t.Helper()
	w := &watched{t: t, file: filepath.Join(t.TempDir(), "pilotlight.yaml"), signal: make(chan os.Signal)}
	w.write(text)
	source := Source{Path: w.file}
	current, _, err := Load(source)
	if err != nil {
		t.Fatal(err)
	}
	watcher := &Watcher{
		Source: source, Current: current, Signal: w.signal, Fixed: []string{"backend.onnx"},
		Apply: func(c *Config) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.fail == nil {
				w.applied = append(w.applied, c)
			}

			return w.fail
		},
		Counted: func(result string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.counts = append(w.counts, result)
		},
		Logger: slog.New(slog.NewTextHandler(w, nil)),
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	synctest.Wait()

	return w
}

func (w *watched) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets fake time pass until all looks in it are done.
func (w *watched) pass(d time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (w *watched) expect(counts ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.counts, counts) {
		w.t.Errorf("reloads were %v, expected %v; the log:\n%s", w.counts, counts, w.log.String())
	}
}

const watchedText = "version: 1\nbackend: {http: 'h:1'}\nhold: {max_requests: %d}\nlisten: {data: ':%d'}\n"

func TestReloadAppliesAChangedFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, fmt.Sprintf(watchedText, 5, 7000))
		w.pass(time.Minute)
		w.expect()
		w.write(fmt.Sprintf(watchedText, 6, 7000))
		w.pass(9 * time.Second)
		w.expect() // the look comes every 10 s
		w.pass(2 * time.Second)
		w.expect("applied")
		w.pass(time.Minute)
		w.expect("applied") // once
		if got := w.last().Hold.MaxRequests; got != 6 || !strings.Contains(w.logged(), "changed=[hold.max_requests]") {
			t.Errorf("max_requests is %d; the log:\n%s", got, w.logged())
		}
	})
}

func TestReloadKeepsTheOldOneWhenTheFileIsBad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, fmt.Sprintf(watchedText, 5, 7000))
		w.write("version: 1\nbakcend: {}\n")
		w.pass(time.Minute)
		w.expect("refused") // said once, not every 10 s
		if !strings.Contains(w.logged(), "did you mean backend?") {
			t.Errorf("the log:\n%s", w.logged())
		}
		if err := os.Remove(w.file); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.expect("refused", "refused")
		w.write(fmt.Sprintf(watchedText, 7, 7000))
		w.pass(time.Minute)
		w.expect("refused", "refused", "applied")
	})
}

func TestReloadOnSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, fmt.Sprintf(watchedText, 5, 7000))
		w.signal <- os.Interrupt
		synctest.Wait()
		w.expect("applied") // asked for: even when the file is the same
		w.failWith(errors.New("no"))
		w.write(fmt.Sprintf(watchedText, 6, 7000))
		w.signal <- os.Interrupt
		synctest.Wait()
		w.expect("applied", "failed")
		w.failWith(nil)
		w.signal <- os.Interrupt
		synctest.Wait()
		w.expect("applied", "failed", "applied")
		if got := w.last().Hold.MaxRequests; got != 6 {
			t.Errorf("max_requests is %d", got)
		}
	})
}

func TestReloadSaysRestartNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, fmt.Sprintf(watchedText, 5, 7000))
		w.write(fmt.Sprintf(watchedText, 6, 7001) + "warmup: {timeout: 1m}\n")
		w.pass(time.Minute)
		w.expect("applied")
		got := w.last()
		if got.Listen.Data != (units.Listen{Network: "tcp", Host: ":7000"}) || got.Hold.MaxRequests != 6 {
			t.Errorf("got %s and %d: what needs a restart must stay, the rest must come", got.Listen.Data, got.Hold.MaxRequests)
		}
		if log := w.logged(); !strings.Contains(log, "restart needed") || !strings.Contains(log, "keys=[listen.data]") || !strings.Contains(log, `changed="[hold.max_requests warmup.timeout]"`) {
			t.Errorf("the log:\n%s", log)
		}
	})
}

func TestReloadSeesAChangeBeforeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pilotlight.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, watchedText, 5, 7000), 0o600); err != nil {
			t.Fatal(err)
		}
		source := Source{Path: file}
		current, _, err := Load(source)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, watchedText, 6, 7000), 0o600); err != nil {
			t.Fatal(err)
		}
		applied := make(chan *Config, 1)
		watcher := &Watcher{Source: source, Current: current, Interval: time.Second, Apply: func(c *Config) error {
			applied <- c

			return nil
		}}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := watcher.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(applied) != 1 {
			t.Error("the change between load and run was missed")
		}
	})
}

func TestChangesNamesKeys(t *testing.T) {
	t.Parallel()
	a, b := full(), full()
	if changed := Changes(a, b); len(changed) != 0 {
		t.Errorf("equal ones differ in %v", changed)
	}
	b.Warmup.Steps[1].Infer.Grid.Batch[0] = 2
	b.Backend.Headers["x-a"] = HeaderConfig{Value: "s"}
	b.Hold.MaxWait.Restart = 1
	b.Models = b.Models[:1]
	if want, got := []string{"backend.headers", "models", "hold.max_wait.restart", "warmup.steps"}, Changes(a, b); !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

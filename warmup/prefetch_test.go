//go:build linux

package warmup_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// TestPrefetchNeedsNoBackend runs against an address where nobody listens.
func TestPrefetchNeedsNoBackend(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "w.bin"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	none := 0
	tests := []struct {
		name, path string
		room       int64
		fails      string // what the error says; empty: none
		says       string // what the report says; empty: nothing
	}{
		{name: "there", path: folder + "/**", room: 1 << 40},
		{name: "no memory", path: folder + "/**", room: 1, says: "nothing was read: a test leaves 1B"},
		{name: "no file", path: folder + "/*.gguf", room: 1 << 40, fails: "step weights: no file matches"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// What has just been written is in the page cache, of which nobody needs any memory.
			if test.says != "" {
				drop(t, filepath.Join(folder, "w.bin"))
			}
			var mu sync.Mutex
			var ended *pages.Report
			runner, err := warmup.NewRunner(warmup.Settings{
				Config: warmup.Config{Steps: []warmup.StepConfig{{Name: "weights", Retries: &none, Prefetch: &warmup.PrefetchConfig{Paths: []string{test.path}}}}},
				Client: client, MemoryLeft: func() pages.Room { return pages.Room{Bytes: test.room, Of: "a test"} },
				Progress: func(event warmup.Event) {
					mu.Lock()
					defer mu.Unlock()
					if event.Kind == warmup.StepEnded {
						ended = event.Pages
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			report, err := runner.Run(t.Context())
			if (err == nil) != (test.fails == "") || (err != nil && !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			read := report.Steps[0].Pages
			if report.Steps[0].Kind != warmup.KindPrefetch || read == nil || ended == nil {
				t.Fatalf("the report is %+v, that of the event %v", report.Steps[0], ended)
			}
			if !strings.Contains(read.Stopped, test.says) || (read.Stopped == "") != (test.says == "") {
				t.Errorf("it says %q, want %q", read.Stopped, test.says)
			}
			if test.fails == "" && test.says == "" && (read.Bytes != 4<<20 || read.Read+read.Cached != read.Bytes) {
				t.Errorf("not all was read: %v", read)
			}
		})
	}
	if _, err := warmup.NewPlan([]warmup.StepConfig{{Name: "weights", Prefetch: &warmup.PrefetchConfig{}}}); err == nil || !strings.Contains(err.Error(), "prefetch names no paths") {
		t.Errorf("a prefetch of nothing: %v", err)
	}
}

package pages_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

var (
	benchSize   = flag.Int64("pages.size", 2<<30, "size of the file that the benchmarks read, in bytes")
	benchDir    = flag.String("pages.dir", "", "folder for it, on a disk; empty: that of temporary files")
	benchRounds = flag.Int("pages.rounds", 5, "interleaved rounds")
)

const (
	// leastSpeed is that of the prefetch, as a share of the best of the other programs.
	leastSpeed = 0.95
	// mostSlowed is what a loader beside it may take, as a multiple of what it takes alone.
	mostSlowed = 1.02
)

// weights writes the file. It is no hole, and it is on the disk, so that its pages can be dropped.
func weights(b *testing.B) string {
	b.Helper()
	dir := *benchDir
	if dir == "" {
		dir = b.TempDir()
	}
	path := filepath.Join(dir, "weights.bin")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.Remove(path) })
	block := make([]byte, 4<<20)
	source := rand.NewChaCha8([32]byte{1})
	for written := int64(0); written < *benchSize; written += int64(len(block)) {
		_, _ = source.Read(block)
		if _, err := file.Write(block[:min(int64(len(block)), *benchSize-written)]); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		b.Fatal(err)
	}

	return path
}

// drop takes the file out of the page cache. Where that is not possible nothing can be measured.
func drop(b *testing.B, path string) {
	b.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Fatal(err)
	}
	if share := resident(b, path); share > 0.01 {
		b.Skipf("%.0f %% of %s cannot be dropped from the page cache: is it on a disk?", 100*share, path)
	}
}

// resident asks the kernel, not the code under test.
func resident(tb testing.TB, path string) float64 {
	tb.Helper()
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	info, err := file.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	var found unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &found, 0); err != nil {
		tb.Skipf("cachestat: %v", err)
	}

	return float64(found.Cache*uint64(os.Getpagesize())) / float64(info.Size())
}

// prefetch reads the file, all of it, and says how long that took.
func prefetch(b *testing.B, path string) time.Duration {
	b.Helper()
	reader := pages.New(pages.Settings{Paths: []string{path}})
	start := time.Now()
	if err := reader.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	if report := reader.Report(); report.Read+report.Cached != *benchSize {
		b.Fatalf("not all was read: %v", report)
	}

	return took
}

// program runs a program that reads the file, and says how long that took.
func program(b *testing.B, name string, args ...string) time.Duration {
	b.Helper()
	command := exec.CommandContext(b.Context(), name, args...)
	start := time.Now()
	var says bytes.Buffer
	command.Stderr = &says // its output, which is the file, goes nowhere
	if err := command.Run(); err != nil {
		b.Fatalf("%s: %v: %s", name, err, &says)
	}

	return time.Since(start)
}

// BenchmarkPrefetchBesideOthers compares a prefetch with what people write into init containers.
func BenchmarkPrefetchBesideOthers(b *testing.B) {
	path := weights(b)
	others := map[string]func() time.Duration{
		"cat":     func() time.Duration { return program(b, "cat", path) },
		"dd":      func() time.Duration { return program(b, "dd", "if="+path, "of=/dev/null", "bs=1M") },
		"vmtouch": func() time.Duration { return program(b, "vmtouch", "-t", path) },
	}
	if _, err := exec.LookPath("vmtouch"); err != nil {
		b.Logf("vmtouch is left out: %v", err)
		delete(others, "vmtouch")
	}
	took := map[string][]time.Duration{}
	for range *benchRounds {
		drop(b, path)
		took["prefetch"] = append(took["prefetch"], prefetch(b, path))
		if share := resident(b, path); share < 1 {
			b.Errorf("after the prefetch %.2f %% are resident, expected all", 100*share)
		}
		for name, read := range others {
			drop(b, path)
			took[name] = append(took[name], read())
		}
	}
	best := time.Duration(0)
	for name, all := range took {
		b.Logf("%-8s median %v of %v", name, median(all).Round(time.Millisecond), rounded(all))
		if name != "prefetch" && (best == 0 || median(all) < best) {
			best = median(all)
		}
	}
	speed := best.Seconds() / median(took["prefetch"]).Seconds()
	b.ReportMetric(speed, "of-the-best")
	if speed < leastSpeed {
		b.Errorf("the prefetch has %.2f of the speed of the best of the others, expected %.2f", speed, leastSpeed)
	}
}

// BenchmarkLoaderBesidePrefetch compares a loader alone with one beside a prefetch of the same file.
func BenchmarkLoaderBesidePrefetch(b *testing.B) {
	path := weights(b)
	for name, loader := range map[string][]string{
		"page cache":      {"if=" + path, "of=/dev/null", "bs=1M"},
		"past page cache": {"if=" + path, "of=/dev/null", "bs=4M", "iflag=direct"},
	} {
		b.Run(name, func(b *testing.B) {
			var alone, beside []time.Duration
			var paused int
			for range *benchRounds {
				drop(b, path)
				alone = append(alone, program(b, "dd", loader...))
				drop(b, path)
				ctx, cancel := context.WithCancel(b.Context())
				reader := pages.New(pages.Settings{Paths: []string{path}})
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = reader.Run(ctx)
				}()
				beside = append(beside, program(b, "dd", loader...))
				if reader.Report().Paused != "" {
					paused++
				}
				cancel()
				<-done
			}
			slowed := median(beside).Seconds() / median(alone).Seconds()
			b.Logf("alone median %v of %v", median(alone).Round(time.Millisecond), rounded(alone))
			b.Logf("beside median %v of %v; paused at its end in %d rounds", median(beside).Round(time.Millisecond), rounded(beside), paused)
			b.ReportMetric(slowed, "of-alone")
			if slowed > mostSlowed {
				b.Errorf("the loader takes %.3f times as long beside a prefetch, expected at most %.2f", slowed, mostSlowed)
			}
		})
	}
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))

	return sorted[len(sorted)/2]
}

func rounded(all []time.Duration) string {
	text := ""
	for _, took := range all {
		text += fmt.Sprintf("%v ", took.Round(time.Millisecond))
	}

	return text
}

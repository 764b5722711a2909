package warmup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"golang.org/x/sys/unix"
)

const (
	// listenVariable makes the test binary a backend at that network and address.
	listenVariable = "PILOTLIGHT_TEST_LISTEN"
	// noticed is how long after its listen call a backend may wait for its first synthetic request.
	noticed = 10 * time.Millisecond
	// idleShare is the share of a core that waiting may cost.
	idleShare = 0.01
	// barePace is the pace of the control: a timer of the runtime's that does nothing.
	barePace = 6 * time.Millisecond
)

// clock is the system's monotonic clock, which the two processes share.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}

	return time.Duration(now.Nano())
}

// spent is the processor time of this process.
func spent() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serveOneBackend is the other process: for each line it reads it starts to listen after a while, waits for an inference, stops listening, and
// writes the nanoseconds between the two.
func serveOneBackend(where string) int {
	network, address, _ := strings.Cut(where, ",")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		timer := time.NewTimer(20*time.Millisecond + rand.N(80*time.Millisecond))
		<-timer.C
		began := clock()
		listener, err := net.Listen(network, address)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)

			return 1
		}
		first := make(chan time.Duration, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/infer") {
				select {
				case first <- clock() - began:
				default:
				}
			}
			answerAsOIP(w, r)
		})}
		done := make(chan error, 1)
		go func() { done <- server.Serve(listener) }()
		took := <-first
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = server.Shutdown(ctx)
		cancel()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return 1
		}
		_, _ = fmt.Fprintln(os.Stdout, int64(took))
	}

	return 0
}

func answerAsOIP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v2":
		_, _ = io.WriteString(w, `{"name":"fake","version":"1","extensions":[]}`)
	case r.URL.Path == "/v2/repository/index":
		_, _ = io.WriteString(w, `[{"name":"m","version":"1","state":"READY"}]`)
	case strings.HasSuffix(r.URL.Path, "/ready"):
	case strings.HasSuffix(r.URL.Path, "/config"):
		http.NotFound(w, r)
	case strings.HasSuffix(r.URL.Path, "/infer"):
		_, _ = io.WriteString(w, `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}`)
	default:
		_, _ = io.WriteString(w, `{"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":[-1,64]}],"outputs":[]}`)
	}
}

// BenchmarkWait waits for a backend in another process to listen, 100 times, and prints how long after its listen call the first synthetic
// request reached it, and what waiting costs.
func BenchmarkWait(b *testing.B) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	tcp := free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(tcp)
	for _, where := range []struct{ name, network, address, listen string }{
		{"tcp", "tcp", tcp, tcp},
		{"localhost", "tcp", "localhost:" + port, tcp},
		{"unix", "unix", "", ""},
	} {
		b.Run(where.name, func(b *testing.B) {
			if where.network == "unix" {
				where.address = filepath.Join(b.TempDir(), "s")
				where.listen = where.address
			}
			client, err := backend.NewClient(backend.ClientSettings{Network: where.network, Address: where.address})
			if err != nil {
				b.Fatal(err)
			}
			runner, err := warmup.NewRunner(warmup.Settings{Client: client, Config: warmup.Config{
				Timeout: units.Duration(time.Minute),
				Steps: []warmup.StepConfig{
					waits("up"), infers("one", warmup.InferConfig{Until: 1, Grid: warmup.GridConfig{Batch: []int{1}}}, "up"),
				},
			}})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				bare, late := control()
				share := idle(b, runner)
				latencies := listens(b, runner, where.network+","+where.listen, 100)
				slices.Sort(latencies)
				at := func(share int) float64 { return float64(latencies[len(latencies)*share/100-1]) / 1e6 }
				b.ReportMetric(at(50), "p50-ms")
				b.ReportMetric(at(99), "p99-ms")
				b.ReportMetric(at(100), "max-ms")
				b.ReportMetric(100*share, "%-of-a-core")
				b.ReportMetric(100*bare, "%-bare-timer")
				b.Logf("listen -> first synthetic request: p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, slowest %.2f ms; waiting costs %.2f %% of a core",
					at(50), at(90), at(99), at(100), 100*share)
				b.Logf("control: a timer of the runtime's at a pace of %v that does nothing is late by up to %v in 99 %% of cases and costs %.2f %% of a core here",
					barePace, late, 100*bare)
				if got := latencies[98]; got > noticed {
					b.Errorf("p99 of %v between listen and first request, expected at most %v", got, noticed)
				}
				if share > idleShare {
					b.Errorf("waiting costs %.2f %% of a core, expected at most %.0f %%", 100*share, 100*idleShare)
				}
			}
		})
	}
}

// control returns what it costs on this machine to wake up at the pace of a wait and to do nothing, and how late that is at the 99th percentile.
func control() (share float64, late time.Duration) {
	timer := time.NewTimer(barePace)
	defer timer.Stop()
	lateness := make([]time.Duration, 0, 400)
	before, began := spent(), time.Now()
	for range cap(lateness) {
		due := time.Now().Add(barePace)
		timer.Reset(barePace)
		<-timer.C
		lateness = append(lateness, time.Since(due))
	}
	share = float64(spent()-before) / float64(time.Since(began))
	slices.Sort(lateness)

	return share, lateness[len(lateness)*99/100]
}

// idle returns the share of a core that a run costs while nobody listens.
func idle(b *testing.B, runner *warmup.Runner) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
	defer cancel()
	before, began := spent(), time.Now()
	if _, err := runner.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("nobody listens, and the run ended with %v", err)
	}

	return float64(spent()-before) / float64(time.Since(began))
}

func listens(b *testing.B, runner *warmup.Runner, where string, n int) []time.Duration {
	b.Helper()
	command := exec.CommandContext(b.Context(), os.Args[0])
	command.Env = append(os.Environ(), listenVariable+"="+where)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	latencies := make([]time.Duration, 0, n)
	for range n {
		_, _ = io.WriteString(input, "listen\n")
		if _, err := runner.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		if !lines.Scan() {
			b.Fatal("the backend ended")
		}
		var took time.Duration
		if _, err := fmt.Sscan(lines.Text(), &took); err != nil {
			b.Fatal(err)
		}
		latencies = append(latencies, took)
	}
	_ = input.Close()
	if err := command.Wait(); err != nil {
		b.Errorf("backend: %v", err)
	}

	return latencies
}

package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	clientVariable  = "PILOTLIGHT_BENCHMARK_CLIENT"
	heldRequests    = 10_000
	maxPerHeld      = 24 << 10
	maxDisplacement = heldRequests / 20
)

// BenchmarkHeld10000 holds ten thousand HTTP/1.1 requests with bodies of 1 KiB, whose clients live in another process, and prints what one of them costs in resident memory.
// No garbage collection is forced before the second reading: it is what the kernel would see.
func BenchmarkHeld10000(b *testing.B) {
	raiseDescriptors(b)
	for b.Loop() {
		holdTenThousand(b)
	}
}

func holdTenThousand(b *testing.B) {
	b.Helper()
	var arrived atomic.Int64
	backend := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order := arrived.Add(1) - 1
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != 1024 {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = fmt.Fprint(w, order)
	})}
	backendAddress := serve(b, backend)
	hold := DefaultHold()
	hold.MaxWait.Start = units.Duration(10 * time.Minute)
	gate := NewGate(GateSettings{Hold: hold, Memory: 256 << 20, Concurrency: DefaultConcurrency()})
	handler := NewHandler(Settings{
		Backend: units.Address{Network: "tcp", Host: backendAddress}, Gate: gate, Limits: DefaultLimits(), Timeouts: DefaultTimeouts(),
		IdleConnections: 512, IdleTimeout: time.Minute, ServerTiming: true,
	})
	defer handler.Close()
	address := serve(b, handler.Server())

	before := residentBytes(b)
	client := exec.Command(os.Args[0])
	client.Env = append(os.Environ(), clientVariable+"="+address)
	client.Stderr = os.Stderr
	out, err := client.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	turns, err := client.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := client.Start(); err != nil {
		b.Fatal(err)
	}
	for n := range heldRequests { // the next one is sent once this one is held, so that the order is known
		if _, err := turns.Write([]byte{0}); err != nil {
			b.Fatal(err)
		}
		for heldNow(gate) <= n {
			runtime.Gosched()
		}
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "sent" {
		b.Fatalf("client said %q", lines.Text())
	}
	for s := gate.Snapshot(); s.Held < heldRequests || s.HeldBytes < heldRequests*1024; s = gate.Snapshot() {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Second)
	held := residentBytes(b)
	perHeld := float64(held-before) / heldRequests
	b.ReportMetric(perHeld/1024, "KiB/held")
	b.ReportMetric(float64(held)/(1<<20), "MiB-resident")

	begun := time.Now()
	gate.Follow(health.Move{From: health.Warming, To: health.Ready})
	if !lines.Scan() {
		b.Fatal("client gave no result")
	}
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-to-answer-all")
	var orders []int
	if err := json.Unmarshal(lines.Bytes(), &orders); err != nil {
		b.Fatalf("%v in %.200s", err, lines.Text())
	}
	if err := client.Wait(); err != nil {
		b.Fatal(err)
	}
	moved := make([]int, 0, len(orders))
	for i, order := range orders {
		moved = append(moved, max(i-order, order-i))
	}
	slices.Sort(moved)
	// The gate releases in order; between it and the backend lie goroutines and connections of their own, as many as there are permits.
	b.ReportMetric(float64(moved[len(moved)/2]), "places-moved-p50")
	b.ReportMetric(float64(moved[len(moved)*99/100]), "places-moved-p99")
	b.ReportMetric(float64(gate.Snapshot().Permits), "permits-at-end")
	if len(orders) != heldRequests || moved[len(moved)*99/100] > maxDisplacement {
		b.Errorf("%d answers, one in a hundred moved by %d places or more, want %d and at most %d", len(orders), moved[len(moved)*99/100], heldRequests, maxDisplacement)
	}
	if perHeld > maxPerHeld {
		b.Errorf("a held request costs %.1f KiB, want at most %d", perHeld/1024, maxPerHeld>>10)
	}
	if left := gate.Snapshot(); left.Held != 0 || left.HeldBytes != 0 || left.InFlight != 0 {
		b.Errorf("left behind: %+v", left)
	}
}

func heldNow(g *Gate) int {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.queue.len()
}

// serve serves on a port of its own until the test ends.
func serve(tb testing.TB, server *http.Server, wrap ...func(net.Listener) net.Listener) string {
	tb.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		tb.Fatal(err)
	}
	for _, w := range wrap {
		listener = w(listener)
	}
	serveOn(tb, server, listener)

	return listener.Addr().String()
}

// serveOn serves at a listener until the end of the test.
func serveOn(tb testing.TB, server *http.Server, listener net.Listener) {
	tb.Helper()
	begin := server.Serve
	if server.TLSConfig != nil {
		begin = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	var done sync.WaitGroup
	done.Go(func() { _ = begin(listener) })
	tb.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
}

func raiseDescriptors(tb testing.TB) {
	tb.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatal(err)
	}
	if limit.Cur < heldRequests+5000 {
		tb.Skipf("%d descriptors are not enough", limit.Cur)
	}
}

// residentBytes returns the resident memory of this process.
func residentBytes(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				tb.Fatal(err)
			}

			return kib << 10
		}
	}
	tb.Fatal("no VmRSS")

	return 0
}

// benchmarkClient runs in a process of its own: it sends every request, says so, and prints in which order the backend got them.
func benchmarkClient() int {
	address := os.Getenv(clientVariable)
	conns := make([]net.Conn, 0, heldRequests)
	head := fmt.Sprintf("POST /v2/models/m/infer HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n", address)
	request := append([]byte(head), bytes.Repeat([]byte{'x'}, 1024)...)
	turn := make([]byte, 1)
	for range heldRequests {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_, err = io.ReadFull(os.Stdin, turn)
		}
		if err == nil {
			_, err = conn.Write(request)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)

			return 1
		}
		conns = append(conns, conn)
	}
	fmt.Println("sent")
	orders := make([]int, len(conns))
	var wait sync.WaitGroup
	var failed atomic.Int64
	for i, conn := range conns {
		wait.Go(func() {
			answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
			if err != nil {
				fmt.Fprintln(os.Stderr, i, err)
				failed.Add(1)

				return
			}
			body, err := io.ReadAll(answer.Body)
			orders[i], _ = strconv.Atoi(string(body))
			if err != nil || answer.StatusCode != http.StatusOK {
				fmt.Fprintln(os.Stderr, i, answer.Status, string(body), err)
				failed.Add(1)
			}
		})
	}
	wait.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(orders); err != nil || failed.Load() > 0 {
		return 1
	}

	return 0
}

package proxy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	uploadVariable = "PILOTLIGHT_BENCHMARK_UPLOAD_BUDGET"
	manyUploads    = 64
	uploadBytes    = 16 << 20
	uploadBudget   = 64 << 20
	uploadMost     = 2*uploadBudget + 64<<20
)

// BenchmarkC17Uploads sends 1 GiB in 64 uploads at once to a proxy, in a process of its own, whose backend is cold: half say how long they are, half trickle in chunks. It prints the most memory that
// the proxy had resident, with a budget of 64 MiB and, for comparison, with one that is no bound.
func BenchmarkC17Uploads(b *testing.B) {
	for b.Loop() {
		bounded := uploadAll(b, uploadBudget)
		b.ReportMetric(float64(bounded)/(1<<20), "MiB-peak")
		if bounded > uploadMost {
			b.Errorf("%d MiB resident, want at most %d", bounded>>20, uploadMost>>20)
		}
		unbounded := uploadAll(b, 4<<30)
		b.ReportMetric(float64(unbounded)/(1<<20), "MiB-peak-unbounded")
		if unbounded < 2*uploadMost {
			b.Errorf("without a budget it is %d MiB: then the budget proves nothing", unbounded>>20)
		}
	}
}

// uploadAll returns the most that a proxy with such a budget had resident.
func uploadAll(b *testing.B, budget int64) int64 {
	b.Helper()
	proxy := exec.Command(os.Args[0])
	proxy.Env = append(os.Environ(), uploadVariable+"="+strconv.FormatInt(budget, 10))
	proxy.Stderr = os.Stderr
	out, err := proxy.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	opened, err := proxy.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := proxy.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	address := lines.Text()
	var wait sync.WaitGroup
	var delivered, full, wrong, answered atomic.Int64
	for i := range manyUploads {
		wait.Go(func() {
			status, body, want := uploadOne(address, byte(i), i%2 == 0)
			answered.Add(1)
			switch {
			case status == http.StatusOK && body == want:
				delivered.Add(1)
			case status == http.StatusServiceUnavailable && strings.Contains(body, `"hold_full"`):
				full.Add(1)
			default:
				wrong.Add(1)
				b.Logf("upload %d: %d %.100s", i, status, body)
			}
		})
	}
	time.Sleep(4 * time.Second) // most bytes that may come have come
	_ = opened.Close()
	wait.Wait()
	if !lines.Scan() {
		b.Fatal("the proxy said nothing of its memory")
	}
	peak, err := strconv.ParseInt(lines.Text(), 10, 64)
	if err != nil || proxy.Wait() != nil {
		b.Fatal(err)
	}
	b.Logf("budget %d MiB: %d delivered intact, %d refused, %d MiB at most", budget>>20, delivered.Load(), full.Load(), peak>>20)
	if wrong.Load() > 0 || delivered.Load() < manyUploads/2 || (budget == uploadBudget) != (full.Load() > 0) {
		b.Errorf("%d delivered, %d refused, %d wrong", delivered.Load(), full.Load(), wrong.Load())
	}

	return peak
}

// uploadOne sends one body of bytes that differ from each other's, and returns the answer and what it should be.
func uploadOne(address string, seed byte, known bool) (status int, body, want string) {
	piece := make([]byte, 64<<10)
	for i := range piece {
		piece[i] = seed + byte(i*7)
	}
	hash := sha256.New()
	for range uploadBytes / len(piece) {
		hash.Write(piece)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer shut(conn)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		length := "Transfer-Encoding: chunked"
		if known {
			length = fmt.Sprintf("Content-Length: %d", uploadBytes)
		}
		_, err := fmt.Fprintf(conn, "POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", length)
		for range uploadBytes / len(piece) {
			if !known && err == nil {
				_, err = fmt.Fprintf(conn, "%x\r\n", len(piece))
			}
			if err == nil {
				_, err = conn.Write(piece)
			}
			if !known && err == nil {
				_, err = io.WriteString(conn, "\r\n")
			}
		}
		if !known && err == nil {
			_, _ = io.WriteString(conn, "0\r\n\r\n")
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error(), ""
	}
	text, _ := io.ReadAll(answer.Body)
	shut(conn)
	<-sent

	return answer.StatusCode, string(text), hex.EncodeToString(hash.Sum(nil))
}

// uploadProxy is the process with the proxy and its backend: it prints its address, opens its gate when its input ends, and prints the most memory that it had resident once all is answered.
func uploadProxy() int {
	budget, _ := strconv.ParseInt(os.Getenv(uploadVariable), 10, 64)
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	go func() {
		_ = http.Serve(backend, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hash := sha256.New()
			_, _ = io.Copy(hash, r.Body)
			_, _ = io.WriteString(w, hex.EncodeToString(hash.Sum(nil)))
		}))
	}()
	hold := DefaultHold()
	hold.MaxWait.Start, hold.MaxWait.Restart = units.Duration(time.Minute), units.Duration(time.Minute)
	gate := NewGate(GateSettings{Hold: hold, Memory: budget, Concurrency: DefaultConcurrency()})
	handler := NewHandler(Settings{
		Backend: tcp(backend.Addr().String()), Gate: gate, Limits: DefaultLimits(), Timeouts: DefaultTimeouts(), Hold: hold, IdleConnections: 64, IdleTimeout: time.Minute,
	})
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	go func() { _ = handler.Server().Serve(front) }()
	fmt.Println(front.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	gate.Follow(health.Move{From: health.Warming, To: health.Ready})
	for s := gate.Snapshot(); s.Held > 0 || s.InFlight > 0 || s.HeldBytes > 0; s = gate.Snapshot() {
		time.Sleep(10 * time.Millisecond)
	}
	status, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok && err == nil {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			fmt.Println(kib << 10)

			return 0
		}
	}

	return 1
}

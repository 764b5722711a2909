package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
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
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	uploadVariable = "PILOTLIGHT_BENCHMARK_UPLOAD_BUDGET"
	uploadBudget   = 64 << 20
	uploadMost     = 2*uploadBudget + 64<<20
)

// uploadLoad is many uploads at once, of which the least number must be delivered whatever the budget.
type uploadLoad struct {
	count, least int
	// connect returns what sends the i-th.
	connect func(b *testing.B, address string) (send func(i int) (status int, body, want string))
}

// BenchmarkC17Uploads sends 1 GiB in 64 uploads at once to a proxy, in a process of its own, whose backend is cold: half say how long they are, half trickle in chunks. It prints the most memory that
// the proxy had resident, with a budget of 64 MiB and, for comparison, with one that is no bound.
func BenchmarkC17Uploads(b *testing.B) {
	benchmarkUploads(b, uploadLoad{64, 32, func(_ *testing.B, address string) func(int) (int, string, string) {
		return func(i int) (status int, body, want string) { return uploadOne(address, byte(i), i%2 == 0) }
	}})
}

// BenchmarkC17UploadsOverHTTP2 is the same with 4000 uploads of 1 MB whose length is not known, 500 on each of 8 connections: what net/http's server takes in before flow control
// stops a client is memory too.
func BenchmarkC17UploadsOverHTTP2(b *testing.B) {
	benchmarkUploads(b, uploadLoad{4000, 100, func(b *testing.B, address string) func(int) (int, string, string) {
		b.Helper()
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: protocols, DisableCompression: true}
		var conns [8]*http.ClientConn
		for i := range conns {
			conn, err := transport.NewClientConn(b.Context(), "http", address)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { shut(conn) })
			conns[i] = conn
		}

		return func(i int) (status int, body, want string) {
			return uploadStream(conns[i%len(conns)], address, byte(i))
		}
	}})
}

func benchmarkUploads(b *testing.B, many uploadLoad) {
	b.Helper()
	for b.Loop() {
		bounded := uploadAll(b, many, uploadBudget)
		b.ReportMetric(float64(bounded)/(1<<20), "MiB-peak")
		if bounded > uploadMost {
			b.Errorf("%d MiB resident, want at most %d", bounded>>20, uploadMost>>20)
		}
		unbounded := uploadAll(b, many, 4<<30)
		b.ReportMetric(float64(unbounded)/(1<<20), "MiB-peak-unbounded")
		if unbounded < 2*uploadMost {
			b.Errorf("without a budget it is %d MiB: then the budget proves nothing", unbounded>>20)
		}
	}
}

// uploadAll returns the most that a proxy with such a budget had resident.
func uploadAll(b *testing.B, many uploadLoad, budget int64) int64 {
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
	send := many.connect(b, address)
	var wait sync.WaitGroup
	var delivered, full, wrong, answered atomic.Int64
	for i := range many.count {
		wait.Go(func() {
			status, body, want := send(i)
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
	if wrong.Load() > 0 || delivered.Load() < int64(many.least) || (budget == uploadBudget) != (full.Load() > 0) {
		b.Errorf("%d delivered, %d refused, %d wrong", delivered.Load(), full.Load(), wrong.Load())
	}

	return peak
}

// uploadPiece is a body of bytes that differ from each other's, to be sent so many times, and what the backend answers to it.
func uploadPiece(seed byte, times int) (piece []byte, want string) {
	piece = make([]byte, 64<<10)
	for i := range piece {
		piece[i] = seed + byte(i*7)
	}
	sum := uint32(0)
	for range times {
		sum = crc32.Update(sum, crc32.IEEETable, piece)
	}

	return piece, strconv.FormatUint(uint64(sum), 16)
}

// uploadStream sends 1 MB over HTTP/2 without a word about its length, and returns the answer and what it should be.
func uploadStream(conn *http.ClientConn, address string, seed byte) (status int, body, want string) {
	const times = 16
	piece, want := uploadPiece(seed, times)
	pieces := make([]io.Reader, times)
	for i := range pieces {
		pieces[i] = bytes.NewReader(piece)
	}
	request, err := http.NewRequest(http.MethodPost, "http://"+address+"/v2/models/m/infer", io.MultiReader(pieces...))
	if err != nil {
		return 0, err.Error(), ""
	}
	answer, err := conn.RoundTrip(request)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer shut(answer.Body)
	text, _ := io.ReadAll(answer.Body)

	return answer.StatusCode, string(text), want
}

// uploadOne sends 16 MiB over HTTP/1, and returns the answer and what it should be.
func uploadOne(address string, seed byte, known bool) (status int, body, want string) {
	const times = 256
	piece, want := uploadPiece(seed, times)
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
			length = fmt.Sprintf("Content-Length: %d", times*len(piece))
		}
		_, err := fmt.Fprintf(conn, "POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", length)
		for range times {
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

	return answer.StatusCode, string(text), want
}

// uploadProxy is the process with the proxy and its backend: it prints its address, opens its gate when its input ends, and prints the most memory that it had resident once all is answered.
func uploadProxy() int {
	budget, _ := strconv.ParseInt(os.Getenv(uploadVariable), 10, 64)
	backend, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		return 1
	}
	go func() {
		_ = http.Serve(backend, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sum := crc32.NewIEEE() // one that takes no time from the proxy
			_, _ = io.Copy(sum, r.Body)
			_, _ = io.WriteString(w, strconv.FormatUint(uint64(sum.Sum32()), 16))
		}))
	}()
	BoundGarbage(budget)
	hold := DefaultHold()
	hold.MaxWait.Start, hold.MaxWait.Restart = units.Duration(time.Minute), units.Duration(time.Minute)
	gate := NewGate(GateSettings{Hold: hold, Memory: budget, Concurrency: DefaultConcurrency()})
	handler := NewHandler(Settings{
		Backend: tcp(backend.Addr().String()), Gate: gate, Limits: DefaultLimits(), Timeouts: DefaultTimeouts(), Hold: hold, IdleConnections: 64, IdleTimeout: time.Minute,
	})
	front, err := net.Listen("tcp", memnet.Loopback())
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

package proxy

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// maxPathAllocations is the most that one POST of 1 KiB over kept connections may allocate in the whole process, net/http's server included.
const maxPathAllocations = 34

// maxShapeAllocations is how many more there may be when the shapes of requests are found.
const maxShapeAllocations = 3

// BenchmarkPath sends 1 KiB POSTs through the whole proxy, over sockets, from a client to a backend which allocate nothing themselves. The stdlib's reverse proxy is
// measured beside it.
func BenchmarkPath(b *testing.B) {
	backend := leanBackend(b)
	transport := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	floor := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: backend.Host})
			p.SetXForwarded()
		},
		Transport:  transport,
		BufferPool: buffers{},
	}
	b.Run("floor", func(b *testing.B) {
		benchmarkPath(b, serve(b, &http.Server{Handler: floor}), bytes.Repeat([]byte("x"), 1024))
	})
	for _, kind := range TransportValues() {
		b.Run(kind.String(), func(b *testing.B) {
			settings := defaultSettings()
			settings.Backend, settings.Transport = backend, kind
			settings.Gate = NewGate(GateSettings{Hold: DefaultHold(), Memory: 64 << 20, Concurrency: DefaultConcurrency()})
			handler := NewHandler(settings)
			b.Cleanup(handler.Close)
			passing(settings.Gate)
			allocations := benchmarkPath(b, serve(b, handler.Server(), handler.Limit), bytes.Repeat([]byte("x"), 1024))
			if kind == Direct && allocations > maxPathAllocations {
				b.Errorf("%d allocations a request, expected at most %d", allocations, maxPathAllocations)
			}
		})
	}
	b.Run("shapes", func(b *testing.B) {
		settings := defaultSettings()
		settings.Backend, settings.Transport = backend, Direct
		settings.Gate = NewGate(GateSettings{Hold: DefaultHold(), Memory: 64 << 20, Concurrency: DefaultConcurrency()})
		settings.Breaker = circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
		seen := 0
		settings.Observed = func(o Observation) {
			if o.Shape.Input == 256 {
				seen++
			}
		}
		handler := NewHandler(settings)
		b.Cleanup(handler.Close)
		passing(settings.Gate)
		head := `{"model":"llama","stream":false,"max_tokens":64,"prompt":"`
		body := head + strings.Repeat("x", 1024-len(head)-2) + `"}`
		if allocations := benchmarkPath(b, serve(b, handler.Server(), handler.Limit), []byte(body)); allocations > maxPathAllocations+maxShapeAllocations {
			b.Errorf("%d allocations a request, expected at most %d", allocations, maxPathAllocations+maxShapeAllocations)
		}
		if seen == 0 {
			b.Error("no shape was seen")
		}
	})
}

// benchmarkPath returns the allocations a request.
func benchmarkPath(b *testing.B, front string, body []byte) int64 {
	b.Helper()
	conn, err := net.Dial("tcp", front)
	if err != nil {
		b.Fatal(err)
	}
	defer shut(conn)
	request := []byte("POST /v2/models/m/infer?a=b HTTP/1.1\r\nHost: models.example\r\nContent-Type: application/json\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: 1024\r\n\r\n" +
		string(body))
	buffer := make([]byte, 8<<10)
	exchange := func() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if !readMessage(conn, buffer) {
			b.Fatal("the answer broke off")
		}
	}
	exchange()
	exchange()
	result := testing.AllocsPerRun(200, exchange)
	for b.Loop() {
		exchange()
	}
	b.ReportMetric(result, "allocs/request")

	return int64(result)
}

// leanBackend answers 1 KiB to each request and allocates nothing.
func leanBackend(tb testing.TB) units.Address {
	tb.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { shut(listener) })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 30 Nov 2026 00:00:00 GMT\r\nServer: lean\r\nContent-Length: 1024\r\n\r\n" + string(bytes.Repeat([]byte("y"), 1024)))
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer shut(conn)
				buffer := make([]byte, 8<<10)
				for readMessage(conn, buffer) {
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()

	return tcp(listener.Addr().String())
}

var (
	headEnd     = []byte("\r\n\r\n")
	lengthField = []byte("Content-Length: ")
)

// readMessage reads one message of known length that fits into buffer, and says whether there was one.
func readMessage(conn net.Conn, buffer []byte) bool {
	got, size := 0, -1
	for size < 0 || got < size {
		n, err := conn.Read(buffer[got:])
		if err != nil {
			return false
		}
		got += n
		if end := bytes.Index(buffer[:got], headEnd); size < 0 && end >= 0 {
			_, after, _ := bytes.Cut(buffer[:end], lengthField)
			digits, _, _ := bytes.Cut(after, []byte("\r"))
			length, _ := strconv.Atoi(string(digits))
			size = end + len(headEnd) + length
		}
	}

	return true
}

package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// rig is a proxy between a client and a backend.
type rig struct {
	gate    *Gate
	handler *Handler
	front   string // address of the data port; empty on the in-memory net
	client  *http.Client
	net     *memnet.Listener // the backend's
}

func defaultSettings() Settings {
	return Settings{
		Limits: DefaultLimits(), Timeouts: DefaultTimeouts(), Hold: DefaultHold(), ConnectTimeout: time.Second,
		IdleConnections: 64, IdleTimeout: 4 * time.Second, ServerTiming: true,
	}
}

func open(g *Gate) { g.Follow(health.Move{From: health.Warming, To: health.Ready}) }

// socketRig runs over real sockets, in front of a backend at address.
func socketRig(t *testing.T, address units.Address, change func(*Settings, *GateSettings)) *rig {
	t.Helper()
	settings := defaultSettings()
	settings.Backend = address
	gate := GateSettings{Hold: DefaultHold(), Memory: 64 << 20, Concurrency: DefaultConcurrency()}
	if change != nil {
		change(&settings, &gate)
	}
	r := &rig{gate: NewGate(gate)}
	settings.Gate = r.gate
	withTelemetry(t, &settings)
	r.handler = NewHandler(settings)
	t.Cleanup(r.handler.Close)
	r.front = serve(t, r.handler.Server(), r.handler.Limit)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	return r
}

// httpBackend serves handler on a port of its own, over HTTP/1 and h2c.
func httpBackend(t *testing.T, handler http.HandlerFunc) units.Address {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	return tcp(serve(t, &http.Server{Handler: handler, Protocols: protocols}))
}

func tcp(host string) units.Address { return units.Address{Network: "tcp", Host: host} }

// rawBackend lets handle speak for each connection, of which the n-th is given, after one request's head was read.
func rawBackend(t *testing.T, handle func(n int, conn net.Conn, head string, rest *bufio.Reader)) units.Address {
	t.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer shut(conn)
				reader := bufio.NewReader(conn)
				if head, err := readHead(reader); err == nil {
					handle(n, conn, head, reader)
				}
			})
		}
	})
	t.Cleanup(func() {
		shut(listener)
		done.Wait()
	})

	return tcp(listener.Addr().String())
}

func readHead(reader *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := reader.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
	}
}

// memoryRig runs on an in-memory net; use it inside a synctest bubble. Call the function it returns at the end.
func memoryRig(t *testing.T, backend http.HandlerFunc, change func(*Settings, *GateSettings)) (*rig, func()) {
	t.Helper()
	r := &rig{net: memnet.Listen()}
	settings := defaultSettings()
	settings.Backend = tcp("backend:80")
	settings.DialContext = r.net.DialContext
	gate := GateSettings{Hold: DefaultHold(), Memory: 64 << 20, Concurrency: DefaultConcurrency()}
	if change != nil {
		change(&settings, &gate)
	}
	r.gate = NewGate(gate)
	settings.Gate = r.gate
	withTelemetry(t, &settings)
	r.handler = NewHandler(settings)
	servers := []*http.Server{{Handler: backend}, r.handler.Server()}
	front := memnet.Listen()
	go func() { _ = servers[0].Serve(r.net) }()
	go func() { _ = servers[1].Serve(front) }()
	transport := &http.Transport{DialContext: front.DialContext, DisableCompression: true}
	r.client = &http.Client{Transport: transport}

	return r, func() {
		transport.CloseIdleConnections()
		r.handler.Close()
		for _, server := range servers {
			shut(server)
		}
		synctest.Wait()
	}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *rig) send(ctx context.Context, method, path string, body io.Reader) answer {
	host := r.front
	if host == "" {
		host = "front"
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, body)
	if err != nil {
		return answer{err: err}
	}
	res, err := r.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer shut(res.Body)
	text, err := io.ReadAll(res.Body)

	return answer{status: res.StatusCode, header: res.Header, body: string(text), err: err}
}

// shut closes what a test is done with.
func shut(c io.Closer) { _ = c.Close() }

// until waits for a condition that another goroutine is about to make true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *rig) held(n int) func() bool { return func() bool { return r.gate.Snapshot().Held == n } }

func (r *rig) quiet() bool {
	s := r.gate.Snapshot()

	return s.Held == 0 && s.HeldBytes == 0 && s.InFlight == 0 && s.Permitted == 0
}

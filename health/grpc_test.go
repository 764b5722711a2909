package health

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

// port is a health port under test.
type port struct {
	machine *Machine
	grpc    *GRPC
	server  *http.Server
	address string
}

// openPort serves the machine at a real socket, as the program does, until the test ends.
func openPort(t *testing.T, machine *Machine) *port {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	return servePort(t, machine, listener)
}

func servePort(t *testing.T, machine *Machine, listener net.Listener) *port {
	t.Helper()
	p := &port{machine: machine, grpc: NewGRPC(machine, NewEndpoints(EndpointSettings{Machine: machine})), address: listener.Addr().String()}
	p.server = &http.Server{Handler: p.grpc, Protocols: &http.Protocols{}, ReadHeaderTimeout: 5 * time.Second}
	p.server.Protocols.SetHTTP1(true)
	p.server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error)
	go func() { served <- p.server.Serve(listener) }()
	t.Cleanup(func() {
		_ = p.server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})

	return p
}

// dial returns a client over a connection of its own.
func (p *port) dial(t *testing.T) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+p.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })

	return grpc_health_v1.NewHealthClient(conn)
}

// readyz asks over plain HTTP/1.1.
func (p *port) readyz(t *testing.T, query string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + p.address + "/readyz" + query)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()

	return resp.StatusCode
}

// patiently is a context for what takes milliseconds and must not hang the tests when it does not.
func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)

	return ctx
}

func TestOnlyCallsOfGRPCAreAnsweredAsSuch(t *testing.T) {
	p := openPort(t, NewMachine(Settings{}))
	http2 := &http.Transport{Protocols: &http.Protocols{}}
	http2.Protocols.SetUnencryptedHTTP2(true)
	defer http2.CloseIdleConnections()
	http1 := &http.Transport{DisableKeepAlives: true}
	for _, test := range []struct {
		name                  string
		transport             http.RoundTripper
		method, path, content string
		expected              int
		grpcStatus            string
	}{
		{"a probe over HTTP/2", http2, "GET", "/livez", "", 200, ""},
		{"a probe over HTTP/1.1", http1, "GET", "/livez", "", 200, ""},
		{"a call over HTTP/1.1 is no call", http1, "POST", "/grpc.health.v1.Health/Check", "application/grpc", 404, ""},
		{"a post of something else", http2, "POST", "/grpc.health.v1.Health/Check", "application/json", 404, ""},
		{"a get that says it is a call", http2, "GET", "/grpc.health.v1.Health/Check", "application/grpc", 405, ""},
		{"another kind of gRPC", http2, "POST", "/grpc.health.v1.Health/Check", "application/grpc-web", 415, ""},
		{"a service nobody has", http2, "POST", "/inference.GRPCInferenceService/ModelInfer", "application/grpc", 200, "12"},
		{"a method nobody has", http2, "POST", "/grpc.health.v1.Health/Heal", "application/grpc+proto", 200, "12"},
	} {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(patiently(t), test.method, "http://"+p.address+test.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", test.content)
			resp, err := test.transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			found := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
			if resp.StatusCode != test.expected || found != test.grpcStatus {
				t.Errorf("got %d, gRPC status %q, expected %d, %q", resp.StatusCode, found, test.expected, test.grpcStatus)
			}
		})
	}
	_, err := p.dial(t).Check(patiently(t), &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("m", maxAsked)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a name of 64 KiB: %v", err)
	}
}

// call is a Watch for the pod by a client that does as it likes.
type call struct {
	rest  io.Reader // what the client sends after the question
	sent  atomic.Int64
	reply *http.Response
}

// Read is the body of the request: the question first, unless there is none, then the rest.
func (c *call) Read(b []byte) (int, error) {
	n, err := c.rest.Read(b)
	c.sent.Add(int64(n))

	return n, err
}

// watchOver begins a watch over a transport. The question is as gRPC frames it.
func watchOver(ctx context.Context, t *testing.T, transport http.RoundTripper, asked bool, rest io.Reader) *call {
	t.Helper()
	question := ""
	if asked {
		question = strings.Repeat("\x00", messageHead) // an empty message: service ""
	}
	c := &call{rest: io.MultiReader(strings.NewReader(question), rest)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://mem/grpc.health.v1.Health/Watch", c)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	if c.reply, err = transport.RoundTrip(request); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.reply.Body.Close() })

	return c
}

// next is the next answer, or nil at the end.
func (c *call) next(t *testing.T) *grpc_health_v1.HealthCheckResponse {
	t.Helper()
	head := make([]byte, messageHead)
	if _, err := io.ReadFull(c.reply.Body, head); err != nil {
		return nil
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(c.reply.Body, text); err != nil {
		t.Fatal(err)
	}
	answer := &grpc_health_v1.HealthCheckResponse{}
	if err := proto.Unmarshal(text, answer); err != nil {
		t.Fatal(err)
	}

	return answer
}

// nobody is a reader that has nothing to say until the context ends.
type nobody struct{ ctx context.Context } //nolint:containedctx // a reader has no other way to know

func (n nobody) Read([]byte) (int, error) {
	<-n.ctx.Done()

	return 0, n.ctx.Err()
}

// zeroes are read without end: empty messages, as gRPC frames them.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)

	return len(b), nil
}

func TestClientsCannotMakeThePortWaitOrGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.Listen()
		p := servePort(t, NewMachine(Settings{}), listener)
		dials := 0
		transport := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials++

			return listener.Dial(ctx)
		}}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		// Who does not ask, or does not come to the end of the question, is sent away; what is sent on and on is not kept.
		for _, test := range []struct {
			name  string
			asked bool
			rest  io.Reader
			took  time.Duration
		}{
			{"a call without a question", false, nobody{ctx}, askTime},
			{"a question without an end", true, nobody{ctx}, askTime},
			{"questions without end", true, zeroes{}, 0},
			{"an endless question", false, io.MultiReader(strings.NewReader("\x00\x00\x00\xff\xff"), zeroes{}), 0},
		} {
			began := time.Now()
			bad := watchOver(ctx, t, transport, test.asked, test.rest)
			answer, took := bad.next(t), time.Since(began)
			if found := bad.reply.Header.Get("Grpc-Status") + bad.reply.Trailer.Get("Grpc-Status"); answer != nil || took != test.took || found == "" || found == "0" {
				t.Errorf("%s: %v after %v, expected none after %v; gRPC status %q", test.name, answer, took, test.took, found)
			}
			if sent := bad.sent.Load(); sent > 2<<20 {
				t.Errorf("%s: %d bytes were taken", test.name, sent)
			}
		}

		watch := watchOver(ctx, t, transport, true, strings.NewReader(""))
		if first := watch.next(t); first.GetStatus() != servesNone {
			t.Errorf("the first answer is %v", first)
		}
		pass(time.Hour) // far beyond every limit on asking

		// A probe is answered over the same connection.
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://mem/readyz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(request)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("/readyz beside the watch: %v, %v", resp, err)
		}
		_ = resp.Body.Close()
		warm(t, p.machine)
		if second := watch.next(t); second.GetStatus() != serves {
			t.Errorf("after an hour the watch says %v", second)
		}
		if dials != 1 {
			t.Errorf("%d connections, expected one for everything", dials)
		}
		cancel()
		synctest.Wait()
		if n := followers(p.machine); n != 0 {
			t.Errorf("%d follow the machine after the watch has left", n)
		}
	})
}

func TestWatchesEndWithTheServer(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*testing.T, *port)
	}{
		{"close", func(_ *testing.T, p *port) { _ = p.server.Close() }},
		{"shutdown", func(t *testing.T, p *port) {
			t.Helper()
			p.server.RegisterOnShutdown(p.grpc.Close)
			if err := p.server.Shutdown(patiently(t)); err != nil {
				t.Errorf("shut down: %v", err)
			}
		}},
		{"stopped", func(_ *testing.T, p *port) {
			p.machine.MoveAll(Draining, "test")
			p.machine.MoveAll(Stopped, "test")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			machine := NewMachine(Settings{})
			p := openPort(t, machine)
			watch := beginWatch(t, p.dial(t), "")
			watch.expect(t, servesNone)
			test.end(t, p)
			watch.expectEnd(t, codes.Unavailable)
			eventually(t, "nobody follows the machine", func() bool { return followers(machine) == 0 })
			if test.name == "stopped" {
				late := beginWatch(t, p.dial(t), "")
				late.expect(t, servesNone)
				late.expectEnd(t, codes.Unavailable)
			}
		})
	}
}

// The control of the test above: a shutdown that does not tell the watches waits for them for ever.
func TestAShutdownThatTellsNobodyWaits(t *testing.T) {
	p := openPort(t, NewMachine(Settings{}))
	beginWatch(t, p.dial(t), "").expect(t, servesNone)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shut down: %v", err)
	}
	p.grpc.Close()
	if err := p.server.Shutdown(patiently(t)); err != nil {
		t.Errorf("shut down after the watches were told: %v", err)
	}
	p.grpc.Close() // does no harm
}

// followers counts who follows the machine.
func followers(m *Machine) int {
	m.mu.Lock()
	defer m.mu.Unlock()

	return len(m.watchers)
}

// eventually waits until something is so that nobody announces.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range math.MaxInt16 {
		if is() {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatalf("in half a minute it never was so that %s", what)
}

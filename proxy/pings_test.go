package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// watched is a listener that counts, in what comes over its connections, the PING frames of HTTP/2 that ask for an answer.
type watched struct {
	net.Listener

	conns, pings atomic.Int64
}

func (w *watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w.conns.Add(1)
	copied, to := io.Pipe()
	go func() {
		_, _ = io.ReadFull(copied, make([]byte, len(http2.ClientPreface)))
		for frames := http2.NewFramer(io.Discard, copied); ; {
			frame, err := frames.ReadFrame()
			if err != nil {
				_ = copied.CloseWithError(err)

				return
			}
			if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
				w.pings.Add(1)
			}
		}
	}()

	return &tee{conn, to}, nil
}

type tee struct {
	net.Conn

	to *io.PipeWriter
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	_, _ = t.to.Write(p[:n])

	return n, err
}

func (t *tee) Close() error {
	_ = t.to.Close()

	return t.Conn.Close()
}

// strict is a gRPC server that allows one ping in five minutes, as many are set up, and drops the connection at the third too many.
// A message "wait" is not answered before the call ends.
func strict(extra ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodec(bytesCodec{}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Minute, PermitWithoutStream: false}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			for {
				var message []byte
				if err := stream.RecvMsg(&message); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}

					return err
				}
				if string(message) == "wait" {
					<-stream.Context().Done()

					return stream.Context().Err()
				}
				if err := stream.SendMsg(&message); err != nil {
					return err
				}
			}
		}),
	}, extra...)...)
}

// TestC10AnIdleBackendIsNotPinged is idle for hours, with and without a call, and has callers who give up, which makes net/http ask whether the backend is still there.
func TestC10AnIdleBackendIsNotPinged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := &watched{Listener: memnet.Listen()}
		inner, _ := listener.Listener.(*memnet.Listener)
		server := strict()
		go func() { _ = server.Serve(listener) }()
		settings := defaultSettings()
		settings.Backend, settings.DialContext = tcp("backend:80"), inner.DialContext
		settings.GRPC = settings.Backend      // said by hand, so that nobody needs to find out on a connection of its own
		settings.IdleTimeout = 24 * time.Hour // so that it is the same connection all the time
		settings.Timeouts.TunnelIdle = 0
		gate := NewGate(GateSettings{Hold: DefaultHold(), Memory: 64 << 20, Concurrency: DefaultConcurrency()})
		settings.Gate = gate
		open(gate)
		handler := NewHandler(settings)
		front := memnet.Listen()
		data := handler.Server()
		go func() { _ = data.Serve(front) }()
		r := &rig{front: "front:80"}
		conn := r.dialGRPC(t, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return front.Dial(ctx) }), grpc.WithIdleTimeout(0))
		echo := func() {
			t.Helper()
			question, reply := []byte("q"), []byte(nil)
			if err := conn.Invoke(t.Context(), "/s/m", &question, &reply); err != nil {
				t.Errorf("after %d pings: %v", listener.pings.Load(), err)
			}
		}
		echo()
		time.Sleep(3 * time.Hour)
		stream, err := conn.NewStream(t.Context(), bidi, "/s/m")
		if err != nil {
			t.Fatal(err)
		}
		message := []byte("m")
		for range 2 {
			if err := stream.SendMsg(&message); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&message); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // silent, with a call
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&message); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		echo()
		if pings := listener.pings.Load(); pings != 0 {
			t.Errorf("%d pings to a backend with which all is well", pings)
		}
		for range 10 {
			ctx, giveUp := context.WithTimeout(t.Context(), time.Second)
			question, reply := []byte("wait"), []byte(nil)
			if err := conn.Invoke(ctx, "/s/m", &question, &reply); status.Code(err) != codes.DeadlineExceeded {
				t.Error(err)
			}
			giveUp()
			synctest.Wait()
		}
		echo()
		if conns := listener.conns.Load(); conns != 1 {
			t.Errorf("%d connections: the backend dropped some, after %d pings", conns, listener.pings.Load())
		}
		shut(conn)
		handler.Close()
		shut(data)
		server.Stop()
		synctest.Wait()
	})
}

// TestC10TheServerWouldNotice is the control of the test above: a transport that pings is dropped by the same server.
func TestC10TheServerWouldNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := &watched{Listener: memnet.Listen()}
		inner, _ := listener.Listener.(*memnet.Listener)
		server := strict()
		go func() { _ = server.Serve(listener) }()
		conn, err := inner.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, http2.ClientPreface)
		frames := http2.NewFramer(conn, conn)
		_ = frames.WriteSettings()
		go func() {
			for range 5 {
				_ = frames.WritePing(false, [8]byte{})
				time.Sleep(10 * time.Second)
			}
		}()
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				t.Error("never told to go away")

				break
			}
			if away, ok := frame.(*http2.GoAwayFrame); ok {
				if string(away.DebugData()) != "too_many_pings" {
					t.Errorf("told to go away for %q", away.DebugData())
				}

				break
			}
		}
		shut(conn)
		server.Stop()
		time.Sleep(time.Minute)
		if listener.pings.Load() < 3 {
			t.Errorf("%d pings were counted", listener.pings.Load())
		}
	})
}

// counted counts the connections that a server has had.
type counted struct {
	stats.Handler

	begun atomic.Int64
}

func (c *counted) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *counted) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *counted) HandleRPC(context.Context, stats.RPCStats)                         {}
func (c *counted) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.begun.Add(1)
	}
}

// TestC10NobodyNoticesAGoAway has a backend that ends its connections when they are 200 ms old, in the middle of calls.
func TestC10NobodyNoticesAGoAway(t *testing.T) {
	t.Parallel()
	count := &counted{}
	server := strict(grpc.StatsHandler(count), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 200 * time.Millisecond}))
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); done.Wait() })
	_, verdict, suspected := judged(t, tcp(listener.Addr().String()), func(s *Settings, _ *GateSettings) { s.Timeouts.Total = units.Duration(0) }, func(r *rig) answer {
		conn := r.dialGRPC(t)
		stream, err := conn.NewStream(t.Context(), bidi, "/s/m")
		if err != nil {
			t.Fatal(err)
		}
		say := func(i int) {
			t.Helper()
			text := fmt.Sprint("message ", i)
			message := []byte(text)
			if err := stream.SendMsg(&message); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&message); err != nil || string(message) != text {
				t.Fatalf("message %d of the call under way, over connection %d: %q, %v", i, count.begun.Load(), message, err)
			}
		}
		say(0)
		for i := 1; count.begun.Load() < 4; i++ {
			question, reply := []byte("q"), []byte(nil)
			if err := conn.Invoke(t.Context(), "/s/m", &question, &reply); err != nil {
				t.Fatalf("call %d, over connection %d: %v", i, count.begun.Load(), err)
			}
			say(i)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		var last []byte
		if err := stream.RecvMsg(&last); !errors.Is(err, io.EOF) {
			t.Errorf("the call under way ended with %v", err)
		}

		return answer{}
	})
	if verdict.Bad != 0 || suspected != 0 {
		t.Errorf("%+v, suspected %d times", verdict, suspected)
	}
}

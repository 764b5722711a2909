package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// bytesCodec sends what it is given, so that no messages need to be generated.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Marshal(v any) ([]byte, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("marshal %T: expected bytes", v)
	}

	return *message, nil
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("unmarshal into %T: expected bytes", v)
	}
	*message = append([]byte(nil), data...)

	return nil
}

// grpcBackend echoes each message of any method. A message that begins with "fail" ends the call with a status.
func grpcBackend(t *testing.T) units.Address {
	t.Helper()
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		incoming, _ := metadata.FromIncomingContext(stream.Context())
		stream.SetTrailer(metadata.Pairs("sum-bin", "\x00\xff", "x-authority", strings.Join(incoming.Get(":authority"), "")))
		if len(incoming.Get("fail-at-once")) > 0 {
			return status.Error(codes.InvalidArgument, "100 % wröng")
		}
		for {
			var message []byte
			if err := stream.RecvMsg(&message); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}

				return err
			}
			if strings.HasPrefix(string(message), "fail") {
				return status.Error(codes.Internal, "broken")
			}
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
	}), grpc.MaxRecvMsgSize(64<<20))
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = server.Serve(listener); close(done) }()
	t.Cleanup(func() { server.Stop(); <-done })

	return tcp(listener.Addr().String())
}

func (r *rig) dialGRPC(t *testing.T, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.front, append(more, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("models.example"),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(conn) })

	return conn
}

var bidi = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

func TestC08GRPCPassesThroughTheHold(t *testing.T) {
	t.Parallel()
	r := socketRig(t, units.Address{}, func(s *Settings, _ *GateSettings) { s.GRPC = grpcBackend(t) })
	conn := r.dialGRPC(t)
	time.AfterFunc(50*time.Millisecond, func() { open(r.gate) })
	for i, size := range []int{5, 200_000, 33 << 20} { // C09: far beyond gRPC's usual limit
		question, trailer := []byte(strings.Repeat("q", size)), metadata.MD{}
		var reply []byte
		err := conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer", &question, &reply, grpc.Trailer(&trailer))
		if err != nil || string(reply) != string(question) || strings.Join(trailer.Get("sum-bin"), "") != "\x00\xff" || strings.Join(trailer.Get("x-authority"), "") != "models.example" {
			t.Fatalf("call %d: %d bytes, %v, %v", i, len(reply), trailer, err)
		}
	}
	question, reply := []byte("q"), []byte(nil)
	err := conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), "fail-at-once", "1"), "/s/m", &question, &reply)
	if s := status.Convert(err); s.Code() != codes.InvalidArgument || s.Message() != "100 % wröng" {
		t.Errorf("trailers only: %v", err)
	}
	until(t, "quiet", r.quiet)
}

// TestBidiLeavesTheHoldWithoutItsEnd has a caller who waits for the answer to his first message before he sends the second.
func TestBidiLeavesTheHoldWithoutItsEnd(t *testing.T) {
	t.Parallel()
	r := socketRig(t, grpcBackend(t), nil)
	stream, err := r.dialGRPC(t).NewStream(t.Context(), bidi, "/s/m")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		message, reply := []byte(fmt.Sprint("message ", i)), []byte(nil)
		if err := stream.SendMsg(&message); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			until(t, "held", r.held(1))
			open(r.gate)
		}
		if err := stream.RecvMsg(&reply); err != nil || string(reply) != string(message) {
			t.Fatalf("%q, %v", reply, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	until(t, "quiet", r.quiet)
}

func TestGRPCRefusalsAreTrailersOnly(t *testing.T) {
	t.Parallel()
	r := socketRig(t, grpcBackend(t), func(_ *Settings, g *GateSettings) {
		g.Hold.MaxWait.Start = units.Duration(50 * time.Millisecond)
		g.RetryAfter = func() time.Duration { return 2 * time.Second }
	})
	var header, trailer metadata.MD
	question, reply := []byte("q"), []byte(nil)
	err := r.dialGRPC(t).Invoke(t.Context(), "/s/m", &question, &reply, grpc.Header(&header), grpc.Trailer(&trailer))
	if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "hold_timeout") || strings.Join(trailer.Get("grpc-retry-pushback-ms"), "") != "2000" || trailer.Get("x-request-id") == nil {
		t.Errorf("%v, header %v, trailer %v", err, header, trailer)
	}
}

func TestC06GRPCCallerLeavesWhileHeld(t *testing.T) {
	t.Parallel()
	r := socketRig(t, grpcBackend(t), nil)
	ctx, leave := context.WithCancel(t.Context())
	stream, err := r.dialGRPC(t).NewStream(ctx, bidi, "/s/m")
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("half")
	if err := stream.SendMsg(&message); err != nil {
		t.Fatal(err)
	}
	until(t, "held", r.held(1))
	leave()
	until(t, "the place is free", r.quiet)
}

// TestC69GRPCBackendThatDiesIsNotTheCallersFault has a backend that hangs up in the middle of a call that its caller has not finished sending.
func TestC69GRPCBackendThatDiesIsNotTheCallersFault(t *testing.T) {
	t.Parallel()
	for range 20 {
		backend := rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
			_, _ = io.WriteString(conn, "\x00\x00\x00\x04\x00\x00\x00\x00\x00") // SETTINGS
			for message := make([]byte, 7); !strings.Contains(string(message), "message"); {
				copy(message, message[1:])
				next, err := rest.ReadByte()
				if err != nil {
					return
				}
				message[6] = next
			}
		})
		got, verdict, suspected := judged(t, backend, nil, func(r *rig) answer {
			stream, err := r.dialGRPC(t).NewStream(t.Context(), bidi, "/s/m")
			if err != nil {
				return answer{err: err}
			}
			message := []byte("message")
			if err := stream.SendMsg(&message); err != nil {
				return answer{err: err}
			}

			return answer{err: stream.RecvMsg(&message)}
		})
		if s := status.Convert(got.err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "backend_broke") || verdict != (circuit.Tally{Bad: 1}) || suspected == 0 {
			t.Fatalf("%v, %+v, suspected %d times", got.err, verdict, suspected)
		}
	}
}

func TestGRPCVerdictsComeFromTheTrailers(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]circuit.Tally{"question": {Good: 1}, "fail": {Bad: 1}} {
		_, verdict, _ := judged(t, grpcBackend(t), nil, func(r *rig) answer {
			question, reply := []byte(message), []byte(nil)

			return answer{err: r.dialGRPC(t).Invoke(t.Context(), "/s/m", &question, &reply)}
		})
		if verdict != want {
			t.Errorf("%s: %+v", message, verdict)
		}
	}
	// An error after a good beginning takes the good verdict's place.
	_, verdict, _ := judged(t, grpcBackend(t), nil, func(r *rig) answer {
		stream, err := r.dialGRPC(t).NewStream(t.Context(), bidi, "/s/m")
		if err != nil {
			return answer{err: err}
		}
		for _, text := range []string{"good", "fail"} {
			message := []byte(text)
			if err := stream.SendMsg(&message); err != nil {
				return answer{err: err}
			}
			if err := stream.RecvMsg(&message); err != nil {
				return answer{err: err}
			}
		}

		return answer{status: http.StatusOK}
	})
	if verdict != (circuit.Tally{Bad: 1}) {
		t.Errorf("%+v", verdict)
	}
}

// TestCallsToABackendWithoutGRPCSayNothingAboutItsHealth has a server that speaks only HTTP/1, as most do that Python runs.
func TestCallsToABackendWithoutGRPCSayNothingAboutItsHealth(t *testing.T) {
	t.Parallel()
	backend := tcp(serve(t, &http.Server{Handler: http.HandlerFunc(echo)}))
	_, verdict, suspected := judged(t, backend, nil, func(r *rig) answer {
		conn := r.dialGRPC(t)
		for range 3 {
			sent, got := []byte("hi"), []byte(nil)
			err := conn.Invoke(t.Context(), "/test.Echo/Unary", &sent, &got)
			if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "backend.grpc") {
				t.Errorf("got %v", err)
			}
		}

		return r.send(t.Context(), http.MethodGet, "/", nil)
	})
	if verdict != (circuit.Tally{Good: 1, None: 3}) || suspected != 0 {
		t.Errorf("verdicts %+v, suspected %d times", verdict, suspected)
	}
}

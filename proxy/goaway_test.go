package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// frames is a gRPC backend that takes no call of its first connections: it reads all of one, or with early only its begin, and answers with refuse. Later ones it echoes.
type frames struct {
	refusing int64
	refuse   func(to *http2.Framer, stream uint32) error
	early    bool
	late     func() // waits before a call is answered; nil: nothing does
	calls    atomic.Int64
}

func (f *frames) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.talk(conn)
		}
	}()
	t.Cleanup(func() { shut(listener); <-done })

	return listener.Addr().String()
}

// talk serves one connection, which ends with its first call. The proxy's question whether HTTP/2 is spoken has none.
func (f *frames) talk(conn net.Conn) {
	defer shut(conn)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()
	var message bytes.Buffer
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			_ = framer.WriteSettingsAck()
		}
		data, ok := frame.(*http2.DataFrame)
		if !ok {
			continue
		}
		message.Write(data.Data())
		refuse := f.calls.Load() < f.refusing
		if early := refuse && f.early; !data.StreamEnded() && !early {
			continue
		}
		if f.late != nil {
			f.late()
		}
		f.calls.Add(1)
		if refuse {
			_ = f.refuse(framer, data.StreamID)

			return
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: data.StreamID, BlockFragment: headerBlock(":status", "200", "content-type", "application/grpc"), EndHeaders: true})
		for piece := range slices.Chunk(message.Bytes(), 16<<10) {
			_ = framer.WriteData(data.StreamID, false, piece)
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: data.StreamID, BlockFragment: headerBlock("grpc-status", "0"), EndHeaders: true, EndStream: true})
		_, _ = io.Copy(io.Discard, conn)

		return
	}
}

func headerBlock(pairs ...string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(pairs); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}

	return block.Bytes()
}

// TestC10ACallThatWasNotTakenIsSentOnceMore has backends that say of a whole call that they have not processed it.
func TestC10ACallThatWasNotTakenIsSentOnceMore(t *testing.T) {
	t.Parallel()
	away := func(to *http2.Framer, _ uint32) error { return to.WriteGoAway(0, http2.ErrCodeNo, nil) }
	refused := func(to *http2.Framer, stream uint32) error {
		return to.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
	}
	processed := func(to *http2.Framer, stream uint32) error { return to.WriteGoAway(stream, http2.ErrCodeNo, nil) }
	for _, test := range []struct {
		name   string
		server *frames
		size   int
		open   bool // the caller does not half-close
		code   codes.Code
		calls  int64
	}{
		{"abrupt GOAWAY", &frames{refusing: 1, refuse: away}, 20, false, codes.OK, 2},
		{"REFUSED_STREAM", &frames{refusing: 1, refuse: refused}, 20, false, codes.OK, 2},
		{"the largest that is kept", &frames{refusing: 1, refuse: away}, smallBody - framePrefix, false, codes.OK, 2},
		{"once and not twice", &frames{refusing: 9, refuse: away}, 20, false, codes.Unavailable, 2},
		{"control: GOAWAY at the call, which may have been processed", &frames{refusing: 1, refuse: processed}, 20, false, codes.Unavailable, 1},
		{"control: a larger one is not kept", &frames{refusing: 1, refuse: away}, smallBody, false, codes.Unavailable, 1},
		{"control: of an open stream not all is there", &frames{refusing: 1, refuse: away, early: true}, 20, true, codes.Unavailable, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
			r := socketRig(t, tcp(test.server.serve(t)), func(s *Settings, _ *GateSettings) { s.Breaker = breaker })
			open(r.gate)
			stream, err := r.dialGRPC(t).NewStream(t.Context(), bidi, "/s/m")
			if err != nil {
				t.Fatal(err)
			}
			question, reply := []byte(strings.Repeat("q", test.size)), []byte(nil)
			if err := stream.SendMsg(&question); err != nil {
				t.Fatal(err)
			}
			if !test.open {
				if err := stream.CloseSend(); err != nil {
					t.Fatal(err)
				}
			}
			err = stream.RecvMsg(&reply)
			if status.Code(err) != test.code || (err == nil && !bytes.Equal(reply, question)) {
				t.Errorf("%d bytes, %v; expected %s", len(reply), err, test.code)
			}
			if calls := test.server.calls.Load(); calls != test.calls {
				t.Errorf("the backend saw %d calls, expected %d", calls, test.calls)
			}
			until(t, "quiet", r.quiet)
		})
	}
}

// TestACallThatIsSentOnceMoreHasAllOfItsTimeAgain has a backend that refuses a whole call late, and another that answers late, or too late.
func TestACallThatIsSentOnceMoreHasAllOfItsTimeAgain(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for _, test := range []struct {
		name   string
		second time.Duration
		want   string
	}{
		{"in time", 6 * time.Second, "0"},
		{"control: too late", 11 * time.Second, "4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				backend, n := memnet.Listen(), atomic.Int64{}
				server := &frames{refusing: 1, refuse: func(to *http2.Framer, _ uint32) error { return to.WriteGoAway(0, http2.ErrCodeNo, nil) }}
				server.late = func() {
					if n.Add(1) == 1 {
						time.Sleep(6 * time.Second)
					} else {
						time.Sleep(test.second)
					}
				}
				var conns sync.WaitGroup
				conns.Go(func() {
					for {
						conn, err := backend.Accept()
						if err != nil {
							return
						}
						conns.Go(func() { server.talk(conn) })
					}
				})
				r, end := memoryRig(t, nil, func(s *Settings, _ *GateSettings) {
					s.DialContext, s.Timeouts.FirstByte = backend.DialContext, units.Duration(limit)
				})
				defer conns.Wait()
				defer shut(backend)
				defer end()
				open(r.gate)
				transport, _ := r.client.Transport.(*http.Transport)
				transport.Protocols = new(http.Protocols)
				transport.Protocols.SetUnencryptedHTTP2(true)
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front/s/m", bytes.NewReader(make([]byte, framePrefix)))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/grpc")
				res, err := r.client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer shut(res.Body)
				_, _ = io.Copy(io.Discard, res.Body)
				if got := res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status"); got != test.want || n.Load() != 2 {
					t.Errorf("gRPC status %q after %d calls, expected %q after 2", got, n.Load(), test.want)
				}
			})
		})
	}
}

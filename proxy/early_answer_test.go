package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

const (
	uploaded = 20 << 20
	tooLarge = `{"error":"the prompt exceeds the limit"}` // 40 bytes
)

// zeros is a body of n bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

// Read implements [io.Reader].
func (zeroReader) Read(p []byte) (int, error) {
	clear(p)

	return len(p), nil
}

// refuseEarly answers once it has read the head, and closes on the rest, so that the kernel resets the connection.
func refuseEarly(_ int, conn net.Conn, _ string, _ *bufio.Reader) {
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(tooLarge), tooLarge)
}

// uploads are the ways in which a client sends a large body.
var uploads = []struct {
	name string
	runs int
	send func(r *rig, t *testing.T) answer
}{
	{"h1, length", 100, func(r *rig, t *testing.T) answer { t.Helper(); return r.uploadWatching(t, false) }},
	{"h1, chunks", 100, func(r *rig, t *testing.T) answer { t.Helper(); return r.uploadWatching(t, true) }},
	{"net/http, length", 20, func(r *rig, t *testing.T) answer { t.Helper(); return r.upload(t, false) }},
	{"net/http, chunks", 20, func(r *rig, t *testing.T) answer { t.Helper(); return r.upload(t, true) }},
	{"h2, length", 20, func(r *rig, t *testing.T) answer { t.Helper(); r.useHTTP2(t); return r.upload(t, false) }},
	{"h2, chunks", 20, func(r *rig, t *testing.T) answer { t.Helper(); r.useHTTP2(t); return r.upload(t, true) }},
	{"like curl: all of it before a look at the answer", 20, (*rig).uploadBlindly},
}

// upload sends a body of which net/http stops sending the rest when it sees an answer.
func (r *rig) upload(t *testing.T, chunked bool) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.front+"/", zeros(uploaded))
	if err != nil {
		return answer{err: err}
	}
	if !chunked {
		request.ContentLength = uploaded
	}
	res, err := r.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer shut(res.Body)
	body, err := io.ReadAll(res.Body)

	return answer{status: res.StatusCode, header: res.Header, body: string(body), err: err}
}

// uploadWatching sends a body beside reading the answer, and leaves once it has that.
func (r *rig) uploadWatching(t *testing.T, chunked bool) answer {
	t.Helper()
	conn := r.dial(t)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer shut(conn)
	wait.Go(func() {
		piece, framing := make([]byte, 1<<20), fmt.Sprintf("Content-Length: %d", uploaded)
		if chunked {
			piece, framing = fmt.Appendf(nil, "%x\r\n%s\r\n", len(piece), piece), "Transfer-Encoding: chunked"
		}
		_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", framing)
		for sent := 0; err == nil && sent < uploaded; sent += 1 << 20 {
			_, err = conn.Write(piece)
		}
		if chunked && err == nil {
			_, _ = io.WriteString(conn, "0\r\n\r\n")
		}
	})

	return readAnswer(conn)
}

func readAnswer(conn net.Conn) answer {
	got, _ := readReply(bufio.NewReader(conn), http.MethodPost)
	if got.Broken {
		return answer{status: got.Status, err: io.ErrUnexpectedEOF}
	}

	return answer{status: got.Status, header: got.Header, body: got.Body}
}

// uploadBlindly sends all of a body and then reads the answer.
func (r *rig) uploadBlindly(t *testing.T) answer {
	t.Helper()
	conn := r.dial(t)
	defer shut(conn)
	_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", uploaded)
	if _, err := io.Copy(conn, zeros(uploaded)); err != nil {
		return answer{err: fmt.Errorf("send the body: %w", err)}
	}

	return readAnswer(conn)
}

// TestC01EarlyAnswerReachesTheClient has net/http's transport for its negative control: there a write that fails may hide the answer.
func TestC01EarlyAnswerReachesTheClient(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, test := range uploads {
			t.Run(test.name, func(t *testing.T) {
				var wrong []answer
				runs := test.runs
				if transport == Standard {
					runs /= 10
				}
				_, verdict, suspected := judged(t, rawBackend(t, refuseEarly), over(transport), func(r *rig) answer {
					for range runs {
						if got := test.send(r, t); got.err != nil || got.status != http.StatusRequestEntityTooLarge || got.body != tooLarge {
							wrong = append(wrong, got)
						}
					}

					return answer{}
				})
				switch {
				case transport == Standard:
					t.Logf("%d of %d went wrong", len(wrong), runs)
				case len(wrong) > 0:
					t.Errorf("%d of %d went wrong, the first: %d %q, %v", len(wrong), runs, wrong[0].status, wrong[0].body, wrong[0].err)
				case verdict != (circuit.Tally{Good: runs}) || suspected != 0:
					t.Errorf("verdicts %+v, suspected %d times", verdict, suspected)
				}
			})
		}
	})
}

// TestEarlyAnswerDoesNotWaitForTheUpload has a client that stops sending in order to see what the backend says.
func TestEarlyAnswerDoesNotWaitForTheUpload(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		r := socketRig(t, rawBackend(t, func(n int, conn net.Conn, head string, rest *bufio.Reader) {
			_, _ = io.CopyN(io.Discard, rest, 1000)
			refuseEarly(n, conn, head, rest)
			_, _ = io.Copy(io.Discard, rest) // and is polite enough not to reset the connection
		}), over(transport))
		open(r.gate)
		conn, _ := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n"+strings.Repeat("x", 1000))
		begun := time.Now()
		if got := readAnswer(conn); got.err != nil || got.status != http.StatusRequestEntityTooLarge || got.body != tooLarge {
			t.Errorf("%+v", got)
		}
		if took := time.Since(begun); took > discardIdle/2 {
			t.Errorf("the answer came after %s", took)
		}
		shut(conn)
		until(t, "quiet", r.quiet)
	})
}

// TestEarlyAnswerComesBeforeAnyByteOfASmallBody has a client that announces a few bytes and waits to hear what the backend says.
func TestEarlyAnswerComesBeforeAnyByteOfASmallBody(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		r := socketRig(t, rawBackend(t, func(n int, conn net.Conn, head string, rest *bufio.Reader) {
			refuseEarly(n, conn, head, rest)
			_, _ = io.Copy(io.Discard, rest)
		}), over(transport))
		open(r.gate)
		conn, _ := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
		begun := time.Now()
		if got := readAnswer(conn); got.err != nil || got.status != http.StatusRequestEntityTooLarge || got.body != tooLarge {
			t.Errorf("%+v", got)
		}
		if took := time.Since(begun); took > discardIdle/2 {
			t.Errorf("the answer came after %s", took)
		}
		shut(conn)
		until(t, "quiet", r.quiet)
	})
}

// TestBackendThatBreaksDuringAnUploadIsBroken is the opposite: the same end of the connection, without an answer.
func TestBackendThatBreaksDuringAnUploadIsBroken(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, test := range uploads {
			t.Run(test.name, func(t *testing.T) {
				backend := rawBackend(t, func(_ int, _ net.Conn, _ string, rest *bufio.Reader) {
					_, _ = io.CopyN(io.Discard, rest, 1<<20)
				})
				got, verdict, suspected := judged(t, backend, over(transport), func(r *rig) answer { return test.send(r, t) })
				if got.err != nil || got.status != http.StatusBadGateway || !strings.Contains(got.body, "backend_broke") || verdict != (circuit.Tally{Bad: 1}) || suspected == 0 {
					t.Errorf("got %d %q, %v; verdict %+v, suspected %d times", got.status, got.body, got.err, verdict, suspected)
				}
			})
		}
	})
}

// echoAtOnce answers when it has read the head, and echoes the body as it comes. It reads on only when what it wrote is taken.
func echoAtOnce(_ int, conn net.Conn, head string, rest *bufio.Reader) {
	request, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), rest)))
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	if _, err := io.Copy(chunkWriter{conn}, struct{ io.Reader }{request.Body}); err == nil {
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
}

// chunkWriter writes each piece as a chunk.
type chunkWriter struct{ to io.Writer }

// Write implements [io.Writer].
func (c chunkWriter) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(c.to, "%x\r\n%s\r\n", len(p), p); err != nil {
		return 0, err
	}

	return len(p), nil
}

// TestEchoThatAnswersBeforeTheEndDoesNotBlock has a backend that does not read on until what it has written is taken, and a client that does the same.
func TestEchoThatAnswersBeforeTheEndDoesNotBlock(t *testing.T) {
	settles(t)
	const size = 16 << 20
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, chunked := range []bool{false, true} {
			for _, h2 := range []bool{false, true} {
				t.Run(fmt.Sprint(protocolName(h2), ", chunked ", chunked), func(t *testing.T) {
					_, verdict, _ := judged(t, rawBackend(t, echoAtOnce), over(transport), func(r *rig) answer {
						if h2 {
							r.useHTTP2(t)
						}
						request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.front+"/", zeros(size))
						if !chunked {
							request.ContentLength = size
						}
						res, err := r.client.Do(request)
						if err != nil {
							t.Fatal(err)
						}
						defer shut(res.Body)
						if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
							t.Errorf("%d bytes came back, %v", n, err)
						}

						return answer{}
					})
					if verdict.Bad != 0 {
						t.Errorf("%+v", verdict)
					}
				})
			}
		}
	})
}

// TestPiecesGoBothWaysAtOnce has a client that sends each piece only after the one before came back.
func TestPiecesGoBothWaysAtOnce(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		r := socketRig(t, rawBackend(t, echoAtOnce), over(transport))
		open(r.gate)
		conn, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			piece, got := fmt.Sprintf("piece %2d", i), make([]byte, 8)
			_, _ = io.WriteString(chunkWriter{conn}, piece)
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != piece {
				t.Fatalf("%q, %v", got, err)
			}
		}
		_, _ = io.WriteString(conn, "0\r\n\r\n")
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
		until(t, "quiet", r.quiet)
	})
}

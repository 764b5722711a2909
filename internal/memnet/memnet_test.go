package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) *memnet.Listener {
	t.Helper()
	l := memnet.Listen()
	t.Cleanup(func() { _ = l.Close() })

	return l
}

// connect returns both ends of a connection through l.
func connect(t *testing.T, l *memnet.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}

	return client, server
}

func TestConnKeepsTheContractOfNet(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		l := memnet.Listen()
		if c1, err = l.Dial(context.Background()); err != nil {
			return nil, nil, nil, err
		}
		if c2, err = l.Accept(); err != nil {
			return nil, nil, nil, err
		}

		return c1, c2, func() { _, _, _ = c1.Close(), c2.Close(), l.Close() }, nil
	})
}

func TestDialAfterCloseIsRefused(t *testing.T) {
	l := memnet.Listen()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after close: %v, expected ECONNREFUSED", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v, expected net.ErrClosed", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: %v, expected net.ErrClosed", err)
	}
}

func TestCloseResetsOnlyWhatNobodyAccepted(t *testing.T) {
	l := memnet.Listen()
	accepted, server := connect(t, l)
	queued, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := queued.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("queued connection: %v, expected ECONNRESET", err)
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := accepted.Read(make([]byte, 9)); n != 1 || err != nil {
		t.Errorf("accepted connection reads %d, %v after close, expected 1 byte", n, err)
	}
	l.Kill()
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("accepted connection after kill: %v, expected ECONNRESET", err)
	}
}

func TestWhatWasSentIsReadBeforeTheEnd(t *testing.T) {
	l := listen(t)
	client, server := connect(t, l)
	_, _ = server.Write([]byte("bye"))
	_ = server.Close()
	got, err := io.ReadAll(client)
	if string(got) != "bye" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write to a closed peer: %v, expected EPIPE", err)
	}
}

func TestCloseWithUnreadBytesIsAReset(t *testing.T) {
	l := listen(t)
	client, server := connect(t, l)
	_, _ = client.Write([]byte("never read"))
	_ = server.Close()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v, expected ECONNRESET", err)
	}
}

func TestHalfClose(t *testing.T) {
	l := listen(t)
	client, server := connect(t, l)
	half, ok := client.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("connection cannot be half closed")
	}
	_ = half.CloseWrite()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("server reads %v, expected EOF", err)
	}
	_, _ = server.Write([]byte("answer"))
	got := make([]byte, 9)
	if n, err := client.Read(got); string(got[:n]) != "answer" || err != nil {
		t.Errorf("client reads %q, %v after its half close", got[:n], err)
	}
}

func TestWriteWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		client, server := connect(t, l)
		_ = client.SetWriteDeadline(time.Now().Add(time.Minute))
		n, err := client.Write(bytes.Repeat([]byte("x"), 1<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == 1<<20 {
			t.Errorf("wrote %d, %v; expected a full buffer and the deadline", n, err)
		}
		_ = client.Close()
		got, err := io.ReadAll(server)
		if len(got) != n || err != nil {
			t.Errorf("server read %d bytes, %v; expected %d", len(got), err, n)
		}
	})
}

func TestFullBacklogWaitsForTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 1000 {
			if _, err := l.Dial(ctx); err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("dial: %v, expected the context's end", err)
				}

				return
			}
		}
		t.Error("a thousand dials were taken with nobody accepting")
	})
}

func TestServesHTTPInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Hour)
			_, _ = io.WriteString(w, "late")
		})}
		go func() { _ = server.Serve(l) }()
		transport := &http.Transport{DialContext: l.DialContext}
		answer, err := (&http.Client{Transport: transport}).Get("http://mem/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if string(body) != "late" {
			t.Errorf("got %q", body)
		}
		transport.CloseIdleConnections()
		_ = server.Close()
	})
}

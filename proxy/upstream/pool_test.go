package upstream

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

func TestPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.Listen()
		defer func() { _ = listener.Close() }()
		p := &pool{max: 2, timeout: 4 * time.Second}
		made := func() *conn {
			raw, err := listener.DialContext(context.Background(), "tcp", "backend:80")
			if err != nil {
				t.Fatal(err)
			}

			return newConn(raw)
		}
		closed := func(c *conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			timeout, ok := err.(net.Error) //nolint:errorlint // the net's own

			return !ok || !timeout.Timeout()
		}
		a, b, c := made(), made(), made()
		p.put(a, 0)
		time.Sleep(time.Second)
		p.put(b, 0)
		p.put(c, 0)
		if !closed(c) || p.len() != 2 {
			t.Errorf("one too many: %d are kept, and it was closed: %v", p.len(), closed(c))
		}
		if got := p.take(); got != b {
			t.Error("the one that was used last does not come first")
		}
		p.put(b, 2*time.Second) // the backend says that it keeps connections for less time than we would
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if !closed(b) || closed(a) || p.len() != 1 {
			t.Errorf("after the backend's limit: %d are kept", p.len())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !closed(a) || p.len() != 0 {
			t.Errorf("after our limit: %d are kept", p.len())
		}
		d := made()
		p.put(d, 0)
		time.Sleep(3999 * time.Millisecond)
		if got := p.take(); got != d {
			t.Error("one that is not old is gone")
		}
		_ = d.Close()
		p.closeAll()
	})
}

func TestKeepAliveHeader(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"timeout=5": 4500 * time.Millisecond, "max=100, timeout=2": 1500 * time.Millisecond, "Timeout=1": 500 * time.Millisecond, "timeout=0": time.Millisecond,
		"": 0, "max=3": 0, "timeout=x": 0, "timeout=-1": 0,
	} {
		if got := parseKeepAlive([]string{value}); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

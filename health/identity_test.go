package health

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestIdentityFindsWhatAConnectionReaches(t *testing.T) {
	dir := procNet(t, map[string]string{
		"tcp": tcpHead + tcpLine("0100007F:0050", "0A", 1) + tcpLine("00000000:0050", "0A", 2) + tcpLine("0A01A8C0:0051", "0A", 3) +
			tcpLine("00000000:0052", "0A", 12) + tcpLine("00000000:0052", "0A", 4) + tcpLine("0100007F:0053", "01", 5),
		"tcp6": tcpHead + tcpLine("00000000000000000000000000000000:0050", "0A", 6) + tcpLine("00000000000000000000000000000000:0054", "0A", 7) +
			tcpLine("0000000000000000FFFF00000100007F:0055", "0A", 8) + tcpLine("00000000000000000000000001000000:0056", "0A", 9) +
			tcpLine("00000000000000000000000000000000:0056", "0A", 10),
	})
	local := func(ip netip.Addr) bool { return ip.IsLoopback() || ip.String() == "192.168.1.10" }
	for _, test := range []struct{ name, network, address, expected string }{
		{"exact before wildcard", "tcp", "127.0.0.1:80", "1"},
		{"another loopback address", "tcp", "127.0.0.2:80", "2"},
		{"v6 wildcard", "tcp", "[::1]:80", "6"},
		{"both families of localhost", "tcp", "localhost:80", "1,6"},
		{"one family of localhost", "tcp6", "localhost:80", "6"},
		{"no host", "tcp4", ":80", "1"},
		{"unspecified", "tcp", "0.0.0.0:80", "1"},
		{"unspecified v6", "tcp", "[::]:86", "9"},
		{"pod address", "tcp", "192.168.1.10:81", "3"},
		{"pod address through the wildcard", "tcp", "192.168.1.10:80", "2"},
		{"remote address whose port we listen at", "tcp", "192.168.1.11:80", ""},
		{"several listeners", "tcp", "127.0.0.1:82", "4,12"},
		{"established only", "tcp", "127.0.0.1:83", ""},
		{"v4 through the v6 wildcard", "tcp", "127.0.0.1:84", "7"},
		{"v4 mapped listener", "tcp", "127.0.0.1:85", "8"},
		{"v4 mapped address", "tcp", "[::ffff:127.0.0.1]:80", "1"},
		{"v6 exact before wildcard", "tcp", "[::1]:86", "9"},
		{"name", "tcp", "models.example:80", ""},
		{"nobody", "tcp", "127.0.0.1:87", ""},
		{"no port", "tcp", "127.0.0.1", ""},
		{"named port", "tcp", "127.0.0.1:http", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := (identity{proc: dir, local: local}).of(test.network, test.address)(); got != test.expected {
				t.Errorf("got %q, expected %q", got, test.expected)
			}
		})
	}
	if got := (identity{proc: dir + "/absent", local: local}).of("tcp", "127.0.0.1:80")(); got != "" {
		t.Errorf("without /proc: %q", got)
	}
}

// listen opens a real socket, with SO_REUSEPORT so that several may share a port.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		if network == "unix" {
			return nil
		}

		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	l, err := config.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })

	return l
}

func TestIdentityChangesWithTheListener(t *testing.T) {
	for _, test := range []struct{ name, network, address string }{
		{"v4", "tcp", "127.0.0.1:0"},
		{"v4 wildcard", "tcp4", "0.0.0.0:0"},
		{"dual stack", "tcp", ":0"},
		{"unix", "unix", filepath.Join(t.TempDir(), "m.sock")},
		{"abstract", "unix", fmt.Sprintf("@pilotlight-identity-test-%d", os.Getpid())},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := listen(t, test.network, test.address)
			address := before.Addr().String()
			if _, port, err := net.SplitHostPort(address); err == nil {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			look := ListenerIdentity(before.Addr().Network(), address)
			first := look()
			if first == "" {
				t.Fatal("a socket that listens has no identity")
			}
			client, err := (&net.Dialer{}).DialContext(t.Context(), before.Addr().Network(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			if again := look(); again != first {
				t.Errorf("%s became %s without a restart", first, again)
			}
			_ = before.Close()
			if gone := look(); gone != "" {
				t.Errorf("nobody listens and the identity is %s", gone)
			}
			_ = listen(t, test.network, before.Addr().String())
			if second := look(); second == "" || second == first {
				t.Errorf("a new listener is %q, the old one was %q", second, first)
			}
		})
	}
}

func TestIdentityOfWorkersThatSharePort(t *testing.T) {
	one := listen(t, "tcp", "127.0.0.1:0")
	look := ListenerIdentity("tcp", one.Addr().String())
	alone := look()
	two := listen(t, "tcp", one.Addr().String())
	both := look()
	if strings.Count(both, ",") != 1 || !hasNew(alone, both) {
		t.Errorf("one listener is %q, two are %q", alone, both)
	}
	_ = two.Close()
	if left := look(); left != alone || hasNew(both, left) {
		t.Errorf("after one of two has left the identity is %q, expected %q", left, alone)
	}
}

// A volume may be mounted elsewhere in the server's container, so that it listens under a path that is not ours.
func TestIdentityOfASocketUnderAnotherPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	look := identity{proc: procNet(t, map[string]string{"unix": ""}), local: isLocal}.of("unix", path)
	if got := look(); got != "" {
		t.Errorf("no file: %q", got)
	}
	before := listen(t, "unix", path)
	first := look()
	if !strings.HasPrefix(first, "file:") || look() != first {
		t.Errorf("got %q, then %q", first, look())
	}
	_ = before.Close()
	_ = listen(t, "unix", path)
	if second := look(); !strings.HasPrefix(second, "file:") || second == first {
		t.Errorf("a new socket is %q, the old one was %q", second, first)
	}
}

// A killed server leaves its socket's file behind, which is no listener.
func TestIdentityOfASocketThatIsLeftBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	l := listen(t, "unix", path)
	look := ListenerIdentity("unix", path)
	if look() == "" {
		t.Fatal("a socket that listens has no identity")
	}
	one, ok := l.(*net.UnixListener)
	if !ok {
		t.Fatalf("%T is no Unix listener", l)
	}
	one.SetUnlinkOnClose(false)
	_ = l.Close()
	if got := look(); got != "" {
		t.Errorf("nobody listens and the identity is %s", got)
	}
}

func BenchmarkIdentity(b *testing.B) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	look := ListenerIdentity("tcp", l.Addr().String())
	for b.Loop() {
		_ = look()
	}
}

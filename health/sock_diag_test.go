package health

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestBothWaysFindTheSameListeners compares what sock_diag says with what /proc says, for every kind of listener.
func TestBothWaysFindTheSameListeners(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", address)
			if err != nil {
				t.Skipf("this machine has no such family: %v", err)
			}
			defer func() { _ = listener.Close() }()
			at, err := netip.ParseAddrPort(listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			asked, ok := askTCP(at.Port())
			if !ok {
				t.Skip("this kernel has no sock_diag: /proc is used")
			}
			// A file of /proc that changes while it is read may show a line twice; the identity drops such copies too.
			read := slices.Compact(append(readTCP("/proc/net/tcp", at.Port()), readTCP("/proc/net/tcp6", at.Port())...))
			if len(read) == 0 || !slices.Equal(asked, read) {
				t.Errorf("asked: %v, read: %v", asked, read)
			}
		})
	}
}

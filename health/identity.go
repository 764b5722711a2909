package health

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// ListenerIdentity returns a function that says which socket listens at an address of this host: the inode numbers of the listening sockets, sorted and joined by commas.
// The kernel gives each new socket another inode, so the answer changes when the server restarts, even if it is back before anybody could notice that it was gone.
// The containers of a pod share a network namespace, so that no shared process namespace is needed.
//
// The network is "tcp", "tcp4", "tcp6" or "unix". A TCP address is host:port, its host an IP address, "localhost" or empty; a Unix address is a path, or a name that begins with "@".
// The answer is "" where it is not known: nothing listens there, the host is another one or a name that would have to be looked up, or there is no /proc.
//
// Servers whose workers each listen with SO_REUSEPORT have several inodes. A worker that is started anew adds one that was not there before, and it is as cold as a restarted server.
// A server that inherits its socket, from systemd or a supervisor, restarts without a change: there only the connection and the checks tell.
// A Unix socket whose server sees it under another path, on a volume mounted elsewhere, is known by the file's inode and time instead.
func ListenerIdentity(network, address string) func() string {
	return identity{ask: askTCP, proc: "/proc/net", local: isLocal}.of(network, address)
}

// identity is where to look; tests look elsewhere.
type identity struct {
	// ask is the quick way; nil, or false from it, leaves /proc.
	ask   func(port uint16) ([]listener, bool)
	proc  string
	local func(netip.Addr) bool
}

func (i identity) of(network, address string) func() string {
	if network == "unix" {
		return i.ofUnix(address)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return unknown
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return unknown
	}
	var wanted []netip.Addr
	switch host {
	case "", "localhost":
		wanted = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	default:
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return unknown // a name: looking it up may wait
		}
		wanted = []netip.Addr{connectsTo(ip.WithZone("").Unmap())}
	}
	wanted = slices.DeleteFunc(wanted, func(ip netip.Addr) bool {
		return (network == "tcp4" && !ip.Is4()) || (network == "tcp6" && ip.Is4())
	})

	return func() string { return i.tcp(wanted, uint16(port)) } //nolint:gosec // ParseUint was told 16 bits
}

func unknown() string { return "" }

// tcp returns the inodes of the sockets to which connections to any of the addresses go.
func (i identity) tcp(wanted []netip.Addr, port uint16) string {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(ip netip.Addr) bool { return !i.local(ip) })
	if len(wanted) == 0 {
		return ""
	}
	listening := i.listening(port)
	var inodes []uint64
	for _, ip := range wanted {
		inodes = append(inodes, takes(listening, ip)...)
	}
	slices.Sort(inodes)
	texts := make([]string, 0, len(inodes))
	for _, inode := range slices.Compact(inodes) {
		texts = append(texts, strconv.FormatUint(inode, 10))
	}

	return strings.Join(texts, ",")
}

// listening returns the sockets that listen at the port, whatever their address.
func (i identity) listening(port uint16) []listener {
	if i.ask != nil {
		if found, ok := i.ask(port); ok {
			return found
		}
	}

	return append(readTCP(i.proc+"/tcp", port), readTCP(i.proc+"/tcp6", port)...)
}

// takes returns the inodes of the listeners that a connection to ip goes to. Like the kernel it prefers the exact address to the wildcard of its family,
// and that one to the IPv6 wildcard, which takes IPv4 too unless it was told not to.
func takes(listening []listener, ip netip.Addr) []uint64 {
	ranks := []netip.Addr{ip, netip.IPv6Unspecified()}
	if ip.Is4() {
		ranks = []netip.Addr{ip, netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, rank := range ranks {
		var inodes []uint64
		for _, one := range listening {
			if one.ip == rank {
				inodes = append(inodes, one.inode)
			}
		}
		if len(inodes) > 0 {
			return inodes
		}
	}

	return nil
}

func (i identity) ofUnix(path string) func() string {
	var listed atomic.Bool // once it was found by its path, its absence means that nobody listens

	return func() string {
		if inodes := readUnix(i.proc+"/unix", path); len(inodes) > 0 {
			listed.Store(true)

			return strings.Join(inodes, ",")
		}
		if listed.Load() || strings.HasPrefix(path, "@") {
			return ""
		}

		return fileIdentity(path)
	}
}

// fileIdentity tells a socket's file from one that was made anew. The time of change is left out: servers often set the mode once they listen.
func fileIdentity(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return ""
	}
	raw, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}

	return fmt.Sprintf("file:%d:%d:%d", raw.Dev, raw.Ino, info.ModTime().UnixNano())
}

// connectsTo returns the address to which Linux connects when asked for ip: the unspecified address means this host.
func connectsTo(ip netip.Addr) netip.Addr {
	switch {
	case ip == netip.IPv4Unspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case ip == netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	default:
		return ip
	}
}

// isLocal tells whether connections to ip stay on this host: a wildcard listener of ours says nothing about a port elsewhere.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}

	return slices.ContainsFunc(own, func(address net.Addr) bool {
		prefix, err := netip.ParsePrefix(address.String())

		return err == nil && prefix.Addr().Unmap() == ip
	})
}

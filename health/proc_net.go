package health

import (
	"bufio"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	// tcpListen is the state of a listening socket in /proc/net/tcp.
	tcpListen = "0A"
	// acceptsConnections is the flag of a listening socket in /proc/net/unix.
	acceptsConnections = 0x10000
	// othersRead is how many sockets that do not listen are read before the rest of /proc/net/tcp is left alone. Linux lists the listening ones first, and a busy proxy has tens of
	// thousands of others; the reading goes on for a while for kernels that mix them.
	othersRead = 512
	// unixRead bounds what is read of /proc/net/unix.
	unixRead = 4 << 20
)

// listener is one listening TCP socket.
type listener struct {
	ip    netip.Addr // unmapped: an IPv4 address is never in IPv6 form
	inode uint64
}

// readTCP returns the sockets that listen at the port, from a file in the form of /proc/net/tcp or tcp6. What cannot be read or understood is left out.
func readTCP(name string, port uint16) []listener {
	file, err := os.Open(name) //nolint:gosec // a file of /proc, or of a test
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // only read
	var found []listener
	others := 0
	for lines := bufio.NewScanner(file); lines.Scan() && others < othersRead; {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != tcpListen {
			others++

			continue
		}
		at, ok := parseTCPAddress(fields[1])
		inode, err := strconv.ParseUint(fields[9], 10, 64)
		if ok && err == nil && inode != 0 && at.Port() == port {
			found = append(found, listener{ip: at.Addr(), inode: inode})
		}
	}

	return found
}

// parseTCPAddress reads an address of /proc/net/tcp, such as 0100007F:1F90: the bytes of the address in words of 32 bits, each with its bytes reversed (as the supported machines
// are little-endian), and the port as a plain number.
func parseTCPAddress(text string) (netip.AddrPort, bool) {
	host, portText, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	port, err := strconv.ParseUint(portText, 16, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	ip, ok := netip.AddrFromSlice(raw)

	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), ok
}

// readUnix returns the inodes, sorted, of the sockets that listen at the path, from a file in the form of /proc/net/unix.
func readUnix(name, path string) []string {
	file, err := os.Open(name) //nolint:gosec // a file of /proc, or of a test
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // only read
	var inodes []string
	for lines := bufio.NewScanner(io.LimitReader(file, unixRead)); lines.Scan(); {
		// Num RefCount Protocol Flags Type St Inode Path; the path may hold spaces, and the inode is padded with some
		rest := lines.Text()
		fields := make([]string, 0, 7)
		for range cap(fields) {
			var field string
			field, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			fields = append(fields, field)
		}
		flags, err := strconv.ParseUint(fields[3], 16, 64)
		if err == nil && flags&acceptsConnections != 0 && rest == path {
			inodes = append(inodes, fields[6])
		}
	}
	slices.Sort(inodes)

	return inodes
}

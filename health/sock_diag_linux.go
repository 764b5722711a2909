package health

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Sizes and offsets of the kernel's inet_diag_req_v2 and inet_diag_msg, both behind the netlink header.
const (
	diagRequest  = unix.SizeofNlMsghdr + 56
	diagMessage  = 72
	diagFamily   = 0
	diagState    = 1
	diagPort     = 4
	diagAddress  = 8
	diagInode    = 68
	diagByFamily = 20
	tcpListening = 10
	// diagReply is how many bytes of listeners are taken at once; the kernel sends as many messages as it takes.
	diagReply = 64 << 10
)

// askTCP returns the sockets that listen at the port, from the kernel's sock_diag, and whether it has that. It looks through the listening sockets only: /proc/net/tcp walks the
// table of all connections, which takes milliseconds even when it is empty.
func askTCP(port uint16) (found []listener, ok bool) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		of, ok := askFamily(family, port)
		if !ok {
			return nil, false
		}
		found = append(found, of...)
	}

	return found, true
}

func askFamily(family byte, port uint16) (found []listener, ok bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(fd) }()
	native := binary.NativeEndian
	var request [diagRequest]byte
	native.PutUint32(request[0:], diagRequest)
	native.PutUint16(request[4:], diagByFamily)
	native.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[unix.SizeofNlMsghdr] = family
	request[unix.SizeofNlMsghdr+1] = unix.IPPROTO_TCP
	native.PutUint32(request[unix.SizeofNlMsghdr+4:], 1<<tcpListening)
	if unix.Sendto(fd, request[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return nil, false
	}
	reply := make([]byte, diagReply)
	for {
		n, _, err := unix.Recvfrom(fd, reply, unix.MSG_DONTWAIT) // a dump's next part is there at once, or never
		if err != nil {
			return nil, false
		}
		for rest := reply[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(native.Uint32(rest))
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return nil, false
			}
			switch kind := native.Uint16(rest[4:]); kind {
			case unix.NLMSG_DONE:
				return found, true
			case diagByFamily:
				if one, at, ok := parseDiag(rest[unix.SizeofNlMsghdr:size]); ok && at == port {
					found = append(found, one)
				}
			default: // an error: the module is missing, or may not be used
				return nil, false
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
	}
}

// parseDiag reads an inet_diag_msg.
func parseDiag(message []byte) (one listener, port uint16, ok bool) {
	if len(message) < diagMessage || message[diagState] != tcpListening {
		return listener{}, 0, false
	}
	length := 4
	if message[diagFamily] == unix.AF_INET6 {
		length = 16
	}
	ip, ok := netip.AddrFromSlice(message[diagAddress : diagAddress+length])
	inode := uint64(binary.NativeEndian.Uint32(message[diagInode:]))

	return listener{ip: ip.Unmap(), inode: inode}, binary.BigEndian.Uint16(message[diagPort:]), ok && inode != 0
}

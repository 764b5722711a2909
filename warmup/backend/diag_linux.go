package backend

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes and offsets of the kernel's inet_diag_req_v2, behind the netlink header, and of nlmsgerr.
const (
	diagRequest   = unix.SizeofNlMsghdr + 56
	diagFamily    = unix.SizeofNlMsghdr
	diagProtocol  = unix.SizeofNlMsghdr + 1
	diagStates    = unix.SizeofNlMsghdr + 4
	diagPort      = unix.SizeofNlMsghdr + 8
	diagAddress   = unix.SizeofNlMsghdr + 12
	diagCookie    = unix.SizeofNlMsghdr + 48
	diagByFamily  = 20
	tcpListen     = 10
	diagReplySize = 512
)

// diag asks the kernel whether somebody listens at a TCP address, by sock_diag. That costs a third of a connect that is refused, most of which
// is the packets, disturbs no backend by connections that come to nothing, and can have no connection to itself. It is not everywhere: see
// newDiag. It must not be used by more than one goroutine at a time.
type diag struct {
	fd      int
	request [diagRequest]byte
	reply   [diagReplySize]byte
}

// newDiag returns nil where sock_diag does not work. The kernel says the same, "no such entry", when its module is missing and when nobody
// listens, so it is tried out on a listener of our own first.
func newDiag(ctx context.Context) *diag {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil
	}
	d := &diag{fd: fd}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		d.close()

		return nil
	}
	defer listener.Close() //nolint:errcheck // nobody ever connected to it
	if address, err := netip.ParseAddrPort(listener.Addr().String()); err != nil || !d.listening(address) {
		d.close()

		return nil
	}

	return d
}

func (d *diag) close() { _ = unix.Close(d.fd) }

// listening says whether the kernel knows a listener that would get a connection to address.
func (d *diag) listening(address netip.AddrPort) bool {
	clear(d.request[:])
	native := binary.NativeEndian
	native.PutUint32(d.request[0:], diagRequest)
	native.PutUint16(d.request[4:], diagByFamily)
	native.PutUint16(d.request[6:], unix.NLM_F_REQUEST)
	d.request[diagProtocol] = unix.IPPROTO_TCP
	native.PutUint32(d.request[diagStates:], 1<<tcpListen)
	binary.BigEndian.PutUint16(d.request[diagPort:], address.Port())
	if address.Addr().Is4() {
		d.request[diagFamily] = unix.AF_INET
	} else {
		d.request[diagFamily] = unix.AF_INET6
	}
	copy(d.request[diagAddress:], address.Addr().AsSlice())
	native.PutUint64(d.request[diagCookie:], ^uint64(0))
	kernel := unix.RawSockaddrNetlink{Family: unix.AF_NETLINK}
	// Neither call blocks. Made raw, they do not wake the runtime's monitor thread, which would cost more than they do.
	if _, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(d.fd), uintptr(unsafe.Pointer(&d.request[0])), diagRequest, 0, //nolint:gosec // see above
		uintptr(unsafe.Pointer(&kernel)), unix.SizeofSockaddrNetlink); errno != 0 { //nolint:gosec // see above
		return false
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(d.fd), uintptr(unsafe.Pointer(&d.reply[0])), diagReplySize, 0, 0, 0) //nolint:gosec // see above

	return errno == 0 && n >= unix.SizeofNlMsghdr && native.Uint16(d.reply[4:]) == diagByFamily
}

package backend

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probeTCP connects to a loopback address without a goroutine, a timer or the poller: the kernel has its own answer ready when connect returns.
func probeTCP(address netip.AddrPort) error {
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], address.Port())
	if address.Addr().Is4() {
		to := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: binary.NativeEndian.Uint16(port[:]), Addr: address.Addr().As4()}

		return probe(unix.AF_INET, unsafe.Pointer(&to), unix.SizeofSockaddrInet4) //nolint:gosec // an argument of a system call
	}
	if address.Addr().Zone() != "" {
		return errNoProbe
	}
	to := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: binary.NativeEndian.Uint16(port[:]), Addr: address.Addr().As16()}

	return probe(unix.AF_INET6, unsafe.Pointer(&to), unix.SizeofSockaddrInet6) //nolint:gosec // an argument of a system call
}

func probeUnix(path string) error {
	to := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	if path == "" || len(path) >= len(to.Path) || path[0] == '@' {
		return errNoProbe
	}
	for i := range len(path) {
		to.Path[i] = int8(path[i]) //nolint:gosec // the kernel's char
	}

	return probe(unix.AF_UNIX, unsafe.Pointer(&to), unsafe.Offsetof(to.Path)+uintptr(len(path))+1) //nolint:gosec // an argument of a system call
}

// probe makes its system calls raw: none of them blocks, and the runtime's monitor thread, which other calls wake, costs more than they do.
func probe(family int, address unsafe.Pointer, size uintptr) error {
	made, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return fmt.Errorf("make socket: %w", errno)
	}
	defer unix.RawSyscall(unix.SYS_CLOSE, made, 0, 0) //nolint:errcheck // the socket was used to look only
	fd := int(made)
	_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, made, uintptr(address), size)
	if errno == unix.EINPROGRESS {
		return finished(fd)
	}
	// EAGAIN comes from a Unix socket whose backlog is full: somebody listens.
	if errno != 0 && errno != unix.EAGAIN {
		return errno
	}

	return notItself(fd)
}

// finished returns how a connect ended that was begun on loopback. An answer that is not there at once will not come: the backlog is full.
func finished(fd int) error {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}} //nolint:gosec // a descriptor fits
	if n, err := unix.Poll(set, 0); err != nil || n == 0 {
		return unix.EINPROGRESS
	}
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if errno != 0 {
		return unix.Errno(errno)
	}

	return notItself(fd)
}

// notItself refuses a connection to itself, which the kernel makes when nobody listens and the port it chose for us happens to be the
// backend's. Such a connection must not linger, or the backend could not bind its port.
func notItself(fd int) error {
	local, localErr := unix.Getsockname(fd)
	remote, remoteErr := unix.Getpeername(fd)
	if localErr != nil || remoteErr != nil {
		return nil //nolint:nilerr // the other side is gone already, so it was not us
	}
	if !same(local, remote) {
		return nil
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("connected to itself: %w", err)
	}

	return unix.ECONNREFUSED
}

func same(a, b unix.Sockaddr) bool {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		b, ok := b.(*unix.SockaddrInet4)

		return ok && a.Port == b.Port && a.Addr == b.Addr
	case *unix.SockaddrInet6:
		b, ok := b.(*unix.SockaddrInet6)

		return ok && a.Port == b.Port && a.Addr == b.Addr
	default:
		return false
	}
}

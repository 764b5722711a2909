package backend

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// probeTCP connects to a loopback address without a goroutine, a timer or the poller: the kernel has its own answer ready when connect returns.
func probeTCP(address netip.AddrPort) error {
	if address.Addr().Is4() {
		return probe(unix.AF_INET, &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()})
	}
	if address.Addr().Zone() != "" {
		return errNoProbe
	}

	return probe(unix.AF_INET6, &unix.SockaddrInet6{Port: int(address.Port()), Addr: address.Addr().As16()})
}

func probeUnix(path string) error { return probe(unix.AF_UNIX, &unix.SockaddrUnix{Name: path}) }

func probe(family int, address unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make socket: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // the socket was used to look only
	err = unix.Connect(fd, address)
	switch {
	case err == unix.EAGAIN:
		// A Unix socket whose backlog is full: somebody listens.
		return nil
	case err == unix.EINPROGRESS:
		return finished(fd)
	case err != nil:
		return err
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

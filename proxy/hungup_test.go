package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp says whether the other side has ended conn, without reading what it sent before.
func hungUp(conn net.Conn) bool {
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return true
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, _ := unix.Poll(polled, 0)
		ended = n > 0
	})

	return ended || err != nil
}

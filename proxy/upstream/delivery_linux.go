package upstream

import "golang.org/x/sys/unix"

// neverRead says whether no byte of what was written since the connection had sent before bytes can have reached the backend's process. It is the only place that
// may say so, and is to be asked only after the backend's side ended in order, without a byte: its last segment acknowledges all that had come by then, and what came
// later met nobody, which the reset that followed tells. A reset by itself says nothing: it may come from a process that has read, while its acknowledgement was delayed.
func (c *conn) neverRead(before uint64) bool {
	if !c.counts {
		return false
	}
	info, ok := c.info()

	return ok && info.State == unix.BPF_TCP_CLOSE && info.Bytes_acked == c.acked+before
}

// bytesAcked returns how many bytes the other end has acknowledged so far.
func (c *conn) bytesAcked() (n uint64, known bool) {
	info, ok := c.info()
	if !ok {
		return 0, false
	}

	return info.Bytes_acked, true
}

// info asks the kernel. Only TCP has an answer.
func (c *conn) info() (info *unix.TCPInfo, ok bool) {
	if c.raw == nil {
		return nil, false
	}
	err := c.raw.Control(func(fd uintptr) {
		var failed error
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		ok = failed == nil
	})

	return info, ok && err == nil
}

package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// capacity is how many bytes one direction of a connection takes before Write waits, in the order of a socket's buffers.
const capacity = 64 << 10

// stream is one direction of a connection. One writer and one reader may use it at the same time.
type stream struct {
	mu      sync.Mutex
	buffer  []byte
	ended   error         // what a reader gets once the buffer is empty; nil while the writer may still write
	refused bool          // the reader is gone
	changed chan struct{} // closed and replaced at each change, to wake those who wait
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

func (s *stream) read(b []byte, closed <-chan struct{}, limit *deadline) (int, error) {
	for {
		passed := limit.wait()
		if err := over(closed, passed); err != nil {
			return 0, err
		}
		n, changed, err := s.take(b)
		if changed == nil {
			return n, err
		}
		select {
		case <-changed:
		case <-closed:
		case <-passed:
		}
	}
}

// take moves what is there into b. A channel that is not nil means that there was nothing, and tells when to look again.
func (s *stream) take(b []byte) (int, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buffer) > 0 || len(b) == 0 {
		n := copy(b, s.buffer)
		s.buffer = s.buffer[n:]
		s.signal()

		return n, nil, nil
	}
	if s.ended != nil {
		return 0, nil, s.ended
	}

	return 0, s.changed, nil
}

func (s *stream) write(b []byte, closed <-chan struct{}, limit *deadline) (int, error) {
	written := 0
	for {
		passed := limit.wait()
		if err := over(closed, passed); err != nil {
			return written, err
		}
		n, changed, err := s.put(b[written:])
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
		select {
		case <-changed:
		case <-closed:
		case <-passed:
		}
	}
}

// put takes what fits of b, and says when to look again for room.
func (s *stream) put(b []byte) (int, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused || s.ended != nil {
		return 0, nil, os.NewSyscallError("write", syscall.EPIPE)
	}
	n := min(len(b), capacity-len(s.buffer))
	if n > 0 {
		s.buffer = append(s.buffer, b[:n]...)
		s.signal()
	}

	return n, s.changed, nil
}

// end says that nothing more is written; a reader gets cause after what is buffered.
func (s *stream) end(cause error) {
	if cause != io.EOF { //nolint:errorlint // io.EOF is never wrapped here, and a reader of net.Conn compares it as such
		cause = os.NewSyscallError("read", cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil || cause != io.EOF { //nolint:errorlint // as above
		s.ended = cause
	}
	s.signal()
}

// refuse says that nobody reads any more: what is buffered is dropped and writes fail.
func (s *stream) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.buffer = true, nil
	s.signal()
}

func (s *stream) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return len(s.buffer) > 0
}

// signal wakes everybody who waits for a change. The caller holds the lock.
func (s *stream) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// over returns why an operation must not go on, or nil.
func over(closed, passed <-chan struct{}) error {
	select {
	case <-closed: // before the deadline, when both are over
		return net.ErrClosed
	default:
	}
	select {
	case <-passed:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

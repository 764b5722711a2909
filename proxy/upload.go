package proxy

import (
	"errors"
	"io"
)

// upload is a body as one attempt to send it sees it. A reader that an earlier attempt left behind gets nothing.
type upload struct {
	*Body

	turn  int
	clock *clock
}

// Read implements [io.Reader].
func (u upload) Read(p []byte) (int, error) {
	u.clock.asked()
	n, err := u.read(u.turn, p)
	if n > 0 {
		u.clock.gave(u.ended())
	}

	return n, err
}

// Close implements [io.Closer]. It ends this attempt's reading and nothing else: transports close what they could not send, and then the body must still be
// there for the next attempt.
func (u upload) Close() error {
	u.detach(u.turn)

	return nil
}

// begin starts an attempt to send the body, which c watches.
func (b *Body) begin(c *clock) upload {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++

	return upload{Body: b, turn: b.turn, clock: c}
}

// detach ends the reading of one attempt. HTTP/2's transport waits until its reader has returned before it lets go of an answer,
// so a reader that is waiting for an HTTP/2 client has to be woken; what it would have read is of no use to anybody else.
func (b *Body) detach(turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if turn != b.turn {
		return
	}
	b.turn++
	b.changed.Broadcast()
	if b.lent && !b.http1 {
		b.direct, b.cut = true, true
		_ = b.src.Close() // breaks the stream's pipe, and so the read
	}
}

// rewound says whether nothing was read since the body was rewound.
func (b *Body) rewound() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.off == 0 && len(b.buf) > 0
}

// again makes the next attempt start at the beginning, if all of the body can be had: it has come and is in memory, or none of it was read and, since it is not longer than
// maxBody, it may be held until then.
func (b *Body) again(maxBody int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	came := errors.Is(b.err, io.EOF) || (b.length > 0 && b.came == b.length)

	return (came || (!b.touched && b.length <= maxBody)) && b.restart()
}

// rewind makes the next attempt start at the beginning, if everything that was read is still in memory.
func (b *Body) rewind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.restart()
}

// restart does so. The caller holds the lock.
func (b *Body) restart() bool {
	b.turn++
	if b.direct || b.spent {
		return false
	}
	b.off, b.owed = 0, b.lent

	return true
}

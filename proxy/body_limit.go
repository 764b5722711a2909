package proxy

import (
	"encoding/binary"
	"errors"
	"net/http"
)

// errBodyLimit is what the reader of a body gets instead of what goes beyond limits.body.
var errBodyLimit = errors.New("read request body: it is larger than limits.body")

// framePrefix is what stands before each gRPC message: a flag and the length.
const framePrefix = 5

// bodyLimit watches the bytes of a body as they come: all of them together must not exceed most, or with messages each gRPC message by itself, of which
// the announced length counts. It is guarded by the body's lock.
type bodyLimit struct {
	most     int64 // 0: no limit
	messages bool
	over     bool

	seen   int64             // of the body
	prefix [framePrefix]byte // of the present message
	have   int               // bytes of prefix
	left   int64             // bytes of the message that are still to come
}

// saw takes note of a piece and returns the error that takes the place of err once the body has gone too far.
func (l *bodyLimit) saw(piece []byte, err error) error {
	if l.most == 0 {
		return err
	}
	if l.messages {
		l.sawMessages(piece)
	} else {
		l.seen += int64(len(piece))
		l.over = l.over || l.seen > l.most
	}
	if l.over {
		return errBodyLimit
	}

	return err
}

func (l *bodyLimit) sawMessages(piece []byte) {
	for len(piece) > 0 && !l.over {
		if l.left > 0 {
			n := min(l.left, int64(len(piece)))
			l.left -= n
			piece = piece[n:]

			continue
		}
		n := copy(l.prefix[l.have:], piece)
		piece = piece[n:]
		if l.have += n; l.have == framePrefix {
			l.have, l.left = 0, int64(binary.BigEndian.Uint32(l.prefix[1:]))
			l.over = l.left > l.most
		}
	}
}

// tooLong says whether the body has gone beyond limits.body.
func (b *Body) tooLong() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.bound.over
}

// tooLong says whether the client still waits while its body has gone beyond limits.body.
func (x *exchange) tooLong() bool {
	return x.body != nil && x.body.tooLong() && x.r.Context().Err() == nil
}

// endCall ends a gRPC call, whose answer has begun, with a status of ours in place of the backend's.
func (x *exchange) endCall(res *http.Response) {
	if res.Trailer == nil {
		res.Trailer = http.Header{}
	}
	(&Rejection{Reason: BodyLimit, Detail: x.h.limitOf(BodyLimit)}).writeStatus(res.Trailer)
}

package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// errBodyClosed is what a late reader of a body gets: one that the transport left behind after the exchange had ended.
var errBodyClosed = errors.New("read request body: the exchange has ended")

const (
	// firstRead is the first piece of memory for a body of unknown length.
	firstRead = 512
	// discardIdle and discardTotal bound how long the rest of an upload that nobody wants is read, so that the client sees the answer and not a reset.
	discardIdle  = 5 * time.Second
	discardTotal = 30 * time.Second
	// smallBody is the length up to which it is not worth watching whether the client leaves while its body is not read, in bytes.
	smallBody = 32 << 10
)

// Body is the body of one request. While the request is held a pump reads it into memory, within bounds; net/http notices that an HTTP/1 client has left
// only once the body has been read, and an HTTP/2 body that nobody reads stalls its neighbours on the connection.
// Afterwards Read gives exactly the bytes that came from the client: those read ahead, then the rest straight from the connection.
// One reader and the pump may work at the same time.
type Body struct {
	src     io.ReadCloser
	request *http.Request
	writer  http.ResponseWriter // reaches the read deadline of the connection
	length  int64               // -1: not known
	http1   bool

	budget   *budget // nil until memory is reserved
	limit    int64   // the most bytes to read ahead
	reserved int64
	windowed bool // the stream's window is reserved too

	mu       sync.Mutex
	changed  sync.Cond
	buf      []byte
	off      int
	err      error // what the source said at its end: io.EOF, or why it broke
	reading  bool  // somebody is inside src.Read
	lent     bool  // that is an attempt's reader
	owed     bool  // it was, and what it brings is the next attempt's to send
	cut      bool  // it was we who ended the source
	pumping  bool
	released bool // the pump stops after its present read
	closed   bool
	direct   bool // bytes have gone past buf, or out of it, so they cannot be read again
	touched  bool // src was read at all
	expects  bool // the client waits for our word before it sends
	spent    bool // nothing will be sent again: memory is freed once it has been read
	turn     int  // counts the attempts to send
	one      [1]byte
	came     int64       // bytes that were read from the client
	left     func()      // called when the client is seen to leave
	patrol   *time.Timer // looks for it; nil: nobody does
	bound    bodyLimit
	scan     *shapeScan // nil: nobody wants to know the shape
}

// init makes b the body of r, and says whether r has one. limit is the most bytes that it may have, or with messages each gRPC message in it; 0 means no limit.
func (b *Body) init(w http.ResponseWriter, r *http.Request, limit int64, messages bool) bool {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return false
	}
	b.src, b.request, b.writer, b.length, b.http1, b.expects = r.Body, r, w, r.ContentLength, r.ProtoMajor == 1, r.Header["Expect"] != nil
	b.bound.most, b.bound.messages = limit, messages
	b.changed.L = &b.mu

	return true
}

// reserve sets memory aside for reading ahead. A known length is reserved as a whole or refused, before any of it is read.
func (b *Body) reserve(from *budget, maxBody, maxStream int64) (outcome Outcome, decided bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = false
	if b.length < 0 {
		b.limit = max(b.limit, maxStream)
	}
	if b.budget != nil || b.direct {
		return Proceed, false // held before: what was read ahead is kept
	}
	if b.length > 0 {
		if b.length > maxBody {
			return TooLarge, true
		}
		if !from.take(b.length) {
			return Full, true
		}
		b.limit, b.reserved = b.length, b.length
	} else if !b.http1 && !from.fits(firstRead+streamWindow) {
		return Full, true // as it would be once it has been read ahead, see reserveWindow
	}
	b.budget = from

	return Proceed, false
}

// settled says whether there is nothing left to read ahead.
func (b *Body) settled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.err != nil || (b.budget != nil && int64(len(b.buf)) >= b.limit && b.length < 0)
}

// ended says whether all of the body has come.
func (b *Body) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.err != nil && !b.bound.over
}

// received returns how many bytes of the body have been read from the client.
func (b *Body) received() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.came
}

// small says whether the body is so small that it is read as a whole before anything else happens to it.
func (b *Body) small() bool { return b.length > 0 && b.length <= smallBody }

// ready says whether some of the body is there, so that to read it is not to wait.
func (b *Body) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.off < len(b.buf) || b.err != nil || (!b.touched && !b.expects && bodyBegan(b.request))
}

// awaited says whether the client waits for a word before it sends the body.
func (b *Body) awaited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.expects && !b.touched
}

// broken returns why the client did not send the whole body, or no more of it was read, or nil.
func (b *Body) broken() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut || errors.Is(b.err, io.EOF) {
		return nil
	}

	return b.err
}

// release makes the pump stop after its present read; what it reads is not lost.
func (b *Body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = true
}

// read gives the bytes in memory first, then those of the connection.
func (b *Body) read(turn int, p []byte) (int, error) {
	b.mu.Lock()
	for {
		switch {
		case b.closed || turn != b.turn:
			b.mu.Unlock()

			return 0, errBodyClosed
		case b.off < len(b.buf):
			defer b.mu.Unlock()
			n := copy(p, b.buf[b.off:])
			b.off += n
			b.forgetRead()

			return n, nil
		case b.err != nil:
			defer b.mu.Unlock()

			return 0, b.err
		case !b.reading && !b.pumping:
			return b.readSource(turn, p)
		default:
			b.changed.Wait()
		}
	}
}

// readSource reads past the memory. The caller holds the lock, which is released.
func (b *Body) readSource(turn int, p []byte) (int, error) {
	b.reading, b.lent, b.touched = true, true, true
	b.mu.Unlock()
	n, err := b.src.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading, b.lent = false, false
	if err = b.bound.saw(p[:n], err); b.bound.over {
		n = 0
	}
	b.passed(p[:n], err)
	if err != nil {
		b.err = err
	}
	b.keep(turn, p[:n])
	b.owed = false
	b.changed.Broadcast()

	return n, err
}

// retain makes room for a body that was not held, as long as it is small, and no larger than what would be held of it, so that it can be sent again until there is an answer.
// Where the budget has none to spare, it goes without.
func (b *Body) retain(in *budget, maxBody, maxStream int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, most := b.length, min(smallBody, maxBody)
	if b.length < 0 {
		most = min(smallBody, maxStream)
		size = min(firstRead, most)
	}
	if b.budget == nil && !b.direct && !b.spent && 0 < size && size <= most && in.spare(size) {
		b.budget, b.limit, b.reserved = in, most, size
		b.buf = make([]byte, 0, size)
	}
}

// keep puts a piece that has gone to the reader of an attempt into memory, if there is room. If that attempt is over, it is the next one that has to send the piece.
// The caller holds the lock.
func (b *Body) keep(turn int, piece []byte) {
	fits := !b.direct && !b.spent && !b.closed
	for fits && len(b.buf)+len(piece) > cap(b.buf) {
		fits = b.length < 0 && b.grow(b.budget.spare)
	}
	switch {
	case len(piece) == 0:
	case fits:
		b.buf = append(b.buf, piece...)
		if turn == b.turn {
			b.off = len(b.buf)
		}
	default: // the memory is of no more use, and what lies in an HTTP/2 window is on its way
		b.direct = true
		b.free()
		if b.owed && !b.closed {
			b.err = errBodyClosed // without the piece the rest would look like a whole body
		}
	}
}

// passed takes note of bytes that came from the client. The caller holds the lock.
func (b *Body) passed(piece []byte, err error) {
	b.came += int64(len(piece))
	if b.scan == nil || b.scan.over {
		return
	}
	b.scan.see(piece)
	if b.scan.over || err != nil || b.came == b.length {
		b.scan.over = true
		b.scan.flight.Shape(b.scan.shape().Key())
	}
}

// shaped tells the exchange with the backend the shape of the request, as soon as it is known.
func (b *Body) shaped(flight circuit.Exchange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.scan == nil:
	case b.scan.over:
		flight.Shape(b.scan.shape().Key())
	default:
		b.scan.flight = flight
	}
}

// shape returns the shape of the request; the zero shape while it is not known.
func (b *Body) shape() RequestShape {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.scan == nil || !b.scan.over {
		return RequestShape{}
	}

	return b.scan.shape()
}

// forget frees the memory, as soon as it has been read, since nothing will be sent again.
func (b *Body) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = true
	b.forgetRead()
}

func (b *Body) forgetRead() {
	if b.spent && b.off == len(b.buf) && !b.pumping {
		b.free()
	}
}

// free gives the memory back. The caller holds the lock.
func (b *Body) free() {
	if b.reserved > 0 {
		b.budget.give(b.reserved)
		b.reserved, b.windowed = 0, false
	}
	b.direct = b.direct || len(b.buf) > 0
	b.buf, b.off = nil, 0
}

// refuse makes net/http's server throw away at once what an HTTP/2 client has sent, and still sends until it learns that nobody wants it.
func (b *Body) refuse() {
	if !b.http1 {
		_ = b.src.Close()
	}
}

// finish ends all reading; the handler may return only after it. A rest that an HTTP/1 client is still sending is read and thrown away for a while if
// answered is true: closing on it would reset the connection, and the client would lose the answer.
func (b *Body) finish(answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.changed.Broadcast()
	if b.patrol != nil {
		b.patrol.Stop()
	}
	defer b.free()
	if b.bound.over || errors.Is(b.err, errBodyClosed) {
		b.err = nil // what is too much, or was lost, is not the end: the rest is still on its way
	}
	if b.err != nil || (!b.touched && (!b.http1 || b.expects)) {
		return
	}
	if !b.http1 {
		if b.reading {
			_ = b.src.Close() // breaks the stream's pipe, and so the read
		}
		for b.reading {
			b.changed.Wait()
		}

		return
	}
	if !answered {
		b.deadline(time.Unix(1, 0))
		for b.reading {
			b.changed.Wait()
		}

		return
	}
	b.discard()
}

// discard reads what is left of an upload. The caller holds the lock.
func (b *Body) discard() {
	end := time.Now().Add(discardTotal)
	scratch := []byte(nil)
	for b.err == nil {
		now := time.Now()
		if !now.Before(end) {
			return
		}
		b.deadline(now.Add(discardIdle))
		if b.reading {
			b.changed.Wait()

			continue
		}
		if scratch == nil {
			scratch = make([]byte, 16<<10)
		}
		b.mu.Unlock()
		_, err := b.src.Read(scratch)
		b.mu.Lock()
		b.err = err
	}
}

// deadline bounds the reads of an HTTP/1 connection. Where that is not possible the client's own behaviour bounds them.
func (b *Body) deadline(at time.Time) {
	_ = http.NewResponseController(b.writer).SetReadDeadline(at)
}

package proxy

import "sync"

// pieceSize is the size of the pieces in which answers are copied, in bytes.
const pieceSize = 32 << 10

// buffers lends the memory through which answers are copied. It implements [httputil.BufferPool].
type buffers struct{}

var bufferPool = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// Get returns a buffer, which goes back by Put.
func (buffers) Get() []byte {
	buffer, _ := bufferPool.Get().(*[pieceSize]byte)

	return buffer[:]
}

// Put takes a buffer back.
func (buffers) Put(b []byte) {
	if len(b) == pieceSize {
		bufferPool.Put((*[pieceSize]byte)(b))
	}
}

package proxy

import "sync/atomic"

// budget counts the bytes reserved for held bodies. Nobody waits for memory: it is there or it is not.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, or none and returns false.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)

	return false
}

// give returns n bytes.
func (b *budget) give(n int64) { b.used.Add(-n) }

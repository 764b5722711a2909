package proxy

import "sync/atomic"

// budget counts the bytes reserved for held bodies. Nobody waits for memory: it is there or it is not.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// take reserves n bytes, or none and returns false.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit.Load() {
		return true
	}
	b.used.Add(-n)

	return false
}

// spare reserves n bytes for what can do without, which never gets more than half of the whole.
func (b *budget) spare(n int64) bool {
	return b.used.Load()+n <= b.limit.Load()/2 && b.take(n)
}

// give returns n bytes.
func (b *budget) give(n int64) { b.used.Add(-n) }

// fits says whether n bytes could be reserved now.
func (b *budget) fits(n int64) bool { return b.used.Load()+n <= b.limit.Load() }

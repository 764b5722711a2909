package circuit

import (
	"sync/atomic"
	"time"
)

// pulsesPerStall is how finely time is known on the path of a request, in parts of stalled_after.
const pulsesPerStall = 20

// pulse is a clock that costs one load. Reading the real one took 48 ns where this was measured, so that an exchange that reads
// it at its begin, at its verdict and at its end cost 230 ns, and costs 100 to 120 ns by reading it at the verdict only. The
// stalled rule alone needs to know when an exchange begins or moves, and only to a twentieth of stalled_after.
//
// It beats only while the breaker runs, in a goroutine of its own, so that a slow Moved does not stop the time.
type pulse struct {
	grain time.Duration // between two beats
	at    atomic.Int64  // 0: it does not beat
}

// last is the time of the last beat, 0 when there is none to go by.
func (p *pulse) last() time.Duration { return time.Duration(p.at.Load()) }

// start makes it beat until the function that it returns is called.
func (p *pulse) start(now func() time.Duration) func() {
	ticker := time.NewTicker(p.grain)
	stop, stopped := make(chan struct{}), make(chan struct{})
	p.at.Store(int64(max(now(), 1)))
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ticker.C:
				p.advance(now())
			case <-stop:
				return
			}
		}
	}()

	return func() {
		ticker.Stop()
		close(stop)
		<-stopped
		p.at.Store(0)
	}
}

// advance beats between two beats. Time never goes back, and a pulse that does not beat stays so.
func (p *pulse) advance(now time.Duration) {
	for {
		at := p.at.Load()
		if at == 0 || at >= int64(now) || p.at.CompareAndSwap(at, int64(now)) {
			return
		}
	}
}

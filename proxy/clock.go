package proxy

import (
	"sync"
	"time"
)

// wait is something that an exchange waits for, with a limit of its own.
type wait uint8

const (
	uploading  wait = iota // the backend has been given bytes of the request and has not asked for more
	sending                // the client has more of its body to send
	awaiting               // all was sent, and the answer's body has not begun
	streaming              // the reader waits for more of the answer
	tunnelling             // no byte came either way since
	writing                // a write to the client has not returned
	waits
)

// timesUp are the reasons of the waits, in their order.
var timesUp = [waits]Reason{UploadIdleTimeout, BodyIdleTimeout, FirstByteTimeout, StreamIdleTimeout, TunnelIdleTimeout, WriteStallTimeout}

// clock watches one attempt: each wait by itself, so that time in which the client does not read or send counts against nobody but it.
// A gRPC call whose caller has not half-closed is open: it may be silent for as long as a tunnel. All methods may be called concurrently.
//
// There is one timer for all waits, and bytes do not reset it: when it fires it sees what is still waited for, and sleeps until that is due.
type clock struct {
	limits  [waits]time.Duration // 0: none
	whole   time.Duration        // limit of all of it; 0: none
	attempt *attempt

	mu       sync.Mutex
	since    [waits]instant // 0: not waiting
	timer    *time.Timer
	alarm    instant // when timer fires; 0 when it is not set
	total    *time.Timer
	began    instant
	awake    bool        // there may be a timer: the attempt has lasted for more than a blink
	blind    bool        // bytes are spliced: which side they wait for has to be looked up
	waited   [waits]bool // blind: at the last look it was this that was waited for
	open     bool        // a call whose caller may go on sending
	complete bool        // all of the request was sent
	reading  bool        // somebody waits for the backend
	answered bool        // the answer's body has begun
	stopped  bool
	up       bool // time is up, for the reason that follows
	reason   Reason
}

// instant is a moment on the monotonic clock, which costs half of what time.Now does.
type instant time.Duration

// epoch is when instants begin.
var epoch = time.Now()

// moment returns the present instant, which is never 0.
func moment() instant { return instant(time.Since(epoch)) | 1 }

// start begins the watch over a.
func (c *clock) start(limits TimeoutsConfig, a *attempt) {
	c.limits = [waits]time.Duration{
		limits.UploadIdle.Std(), limits.BodyIdle.Std(), limits.FirstByte.Std(), limits.StreamIdle.Std(), limits.TunnelIdle.Std(), limits.WriteStall.Std(),
	}
	c.attempt, c.open = a, a.x.grpc && a.x.body != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whole = limits.Total.Std()
	if c.began = moment(); c.open {
		c.begin(tunnelling)
	}
}

// wake makes the clock keep time by itself. What was to end before is ended now.
func (c *clock) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.awake {
		return
	}
	c.awake = true
	now := moment()
	for w, since := range c.since {
		if since != 0 {
			c.set(now, since+instant(c.limits[w]))
		}
	}
	if c.whole > 0 && c.since[tunnelling] == 0 {
		c.total = time.AfterFunc(c.whole-time.Duration(now-c.began), c.fireTotal)
	}
}

// timeUp returns why the attempt was ended, if it was for taking too long.
func (c *clock) timeUp() (reason Reason, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.reason, c.up
}

// asked says that the backend's side wants more of the request: it has taken all it was given.
func (c *clock) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(uploading)
	if !c.open && !c.answered && !c.complete {
		c.begin(sending)
	}
}

// gave says that the backend's side got bytes of the request, of which ended says that no more will come from the caller.
func (c *clock) gave(ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(sending)
	if ended {
		c.close()
	}
	if c.open {
		c.touch()
	} else if !c.answered && !c.complete {
		c.begin(uploading)
	}
}

// sent says that the last byte of the request was sent. It may come after the answer has begun.
func (c *clock) sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.complete {
		return
	}
	c.complete = true
	c.end(uploading)
	c.end(sending)
	c.close()
	if !c.answered {
		c.begin(awaiting)
	}
}

// again says that the backend has taken nothing of the request, which is sent once more. What was waited for meanwhile is waited for anew.
func (c *clock) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complete = false
	c.end(uploading)
	c.end(sending)
	c.end(awaiting)
	c.touch()
}

// waiting says that the reader waits for the backend.
func (c *clock) waiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = true
	if c.answered && !c.open {
		c.begin(streaming)
	}
}

// got says that the reader has bytes of the answer's body, or its end, and does not wait.
func (c *clock) got() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.answered = false, true
	c.end(uploading) // who answers early may leave the rest of an upload where it is
	c.end(sending)
	c.end(awaiting)
	c.end(streaming)
	c.touch()
}

// write says that a write to the client begins.
func (c *clock) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(writing)
}

// written says that a write to the client has ended.
func (c *clock) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(writing)
}

// splicing says that the kernel begins to move bytes from the backend to the client.
func (c *clock) splicing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind, c.waited = true, [waits]bool{}
	c.begin(streaming)
	c.begin(writing)
}

// spliced says that it has moved them.
func (c *clock) spliced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind = false
	c.end(streaming)
	c.end(writing)
}

// tunnel says that the exchange became a tunnel, which has no limit but that of its silence.
func (c *clock) tunnel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = [waits]instant{}
	c.answered, c.complete = true, true // the standard transport may say only later that the request was sent
	c.whole = 0
	if c.total != nil {
		c.total.Stop()
	}
	c.begin(tunnelling)
}

// moved says that bytes went through the tunnel.
func (c *clock) moved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touch()
}

// stop ends the watch. Nothing is cancelled or interrupted after it has returned.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.total != nil {
		c.total.Stop()
	}
}

// close takes note that the caller sends no more. The caller of close holds the lock, as for all that follows.
func (c *clock) close() {
	if !c.open {
		return
	}
	c.open = false
	c.end(tunnelling)
	if c.answered && c.reading {
		c.begin(streaming)
	}
}

// touch starts the silence anew, if it is watched.
func (c *clock) touch() {
	if c.since[tunnelling] != 0 {
		c.since[tunnelling] = moment() // the timer fires too early, and finds out
	}
}

func (c *clock) begin(w wait) {
	if c.limits[w] <= 0 || c.stopped {
		return
	}
	now := moment()
	c.since[w] = now
	c.set(now, now+instant(c.limits[w]))
}

func (c *clock) end(w wait) { c.since[w] = 0 }

// set makes the timer fire at due, or before.
func (c *clock) set(now, due instant) {
	switch {
	case !c.awake, c.alarm != 0 && due >= c.alarm:
		return
	case c.timer == nil:
		c.timer = time.AfterFunc(time.Duration(due-now), c.fire)
	default:
		c.timer.Reset(time.Duration(due - now))
	}
	c.alarm = due
}

// fire looks whether time is up for anything that is still waited for.
func (c *clock) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm = 0
	if c.stopped {
		return
	}
	now := moment()
	for w, since := range c.since {
		if since == 0 {
			continue
		}
		due := since + instant(c.limits[w])
		if due <= now && c.blind {
			// What the backend has sent and nobody has read waits for the client; else it is the backend that is waited for. One look proves nothing: it may fall
			// into the moment at which that changes.
			waited := (wait(w) == writing) == c.attempt.exchange.Readable()
			if !waited || !c.waited[w] {
				c.since[w], due = now, now+instant(c.limits[w])
			}
			c.waited[w] = waited
		}
		if due > now {
			c.set(now, due)

			continue
		}
		c.over(timesUp[w])
		if wait(w) == writing {
			c.attempt.x.answer.interrupt()
		}

		return
	}
}

func (c *clock) fireTotal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.over(TotalTimeout)
	}
}

// over ends the attempt. The caller holds the lock.
func (c *clock) over(reason Reason) {
	if !c.up {
		c.up, c.reason = true, reason
	}
	c.attempt.abort()
}

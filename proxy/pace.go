package proxy

import "time"

// leastWindow is the least number of answers that are judged together.
const leastWindow = 48

// pace tells by the times to the first byte whether the backend is so full that it makes requests wait inside. It judges windows of answers by their mean, since single ones differ by
// what was asked, and compares it with a level, which is what the better windows had lately: it follows them down soon and up slowly. More than 8/5 of the level is late. It is
// less than twice the level on purpose: half as many requests at once then bring times below the level, if that was too high, and so a full backend cannot pass for a fast one.
//
// It cannot tell a full backend from one that is asked for more work in each request, so it tries: when fewer requests at once did not make the answers faster,
// it was the work that became slower, and the level is found anew.
type pace struct {
	sum    time.Duration
	n      int
	best   time.Duration // the fastest answer until there is a level
	level  time.Duration // 0: nothing was seen
	before time.Duration // the late mean to which the answer was fewer requests; 0: the last window was in time
}

// restart begins a new window.
func (p *pace) restart() { p.sum, p.n = 0, 0 }

// see takes the time to the first byte of one answer. It says whether a window of answers, as many as may be under way, is complete, and whether it has come in late.
func (p *pace) see(took time.Duration, window int) (complete, late bool) {
	p.sum += took
	p.n++
	if p.best == 0 || took < p.best {
		p.best = took
	}
	if p.n < max(window, leastWindow) {
		return false, false
	}
	mean := p.sum / time.Duration(p.n)
	p.restart()
	if p.level == 0 {
		p.level = p.best // more may be under way already than the backend can work on at once
	}
	switch {
	case mean <= p.level:
		p.level, p.before = p.level-(p.level-mean)/4, 0
	case mean <= p.level*8/5+lateSlack:
		p.level, p.before = p.level+(mean-p.level)/128, 0
	case p.before == 0 || mean < p.before*3/4:
		p.before = mean

		return true, true
	default:
		p.level, p.before = mean, 0
	}

	return true, false
}

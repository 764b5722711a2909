package warmup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// lossesBorne is with how many losses of the backend a shape may coincide until it is given up. Once may be chance.
	lossesBorne = 2
	// lossLag is how long it may take, after a request went wrong, until somebody has seen that the backend is gone.
	lossLag = 10 * time.Second
	// mostSuspects bounds how many shapes are remembered.
	mostSuspects = 512
)

// suspect is a shape that the pod can do without, as it is known beyond the run.
type suspect struct {
	step, model string
	of          backend.Shape
	concurrency int
}

// suspects remembers, for the life of this process, which shapes that the pod can do without were being asked for when the backend was lost. A shape that kills the backend would
// else take the pod out again after each warm-up, and without end. The zero suspects remembers nothing.
type suspects struct {
	mu sync.Mutex
	// asked maps those that are being asked for to the time at which that went wrong, or to the zero time.
	asked  map[suspect]time.Time
	losses map[suspect]int
}

// ask says that a volley of a shape is sent.
func (s *suspects) ask(about suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked, s.losses = map[suspect]time.Time{}, map[suspect]int{}
	}
	s.asked[about] = time.Time{}
}

// told says how the volley ended. One that somebody gave up says nothing, nor does one that the server did not take.
func (s *suspects) told(ctx context.Context, about suspect, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || errors.Is(err, backend.ErrRequestRefused) || errors.Is(context.Cause(ctx), context.Canceled) {
		delete(s.asked, about)
	} else if _, there := s.asked[about]; there { // else the loss is known already
		s.asked[about] = time.Now()
	}
}

// lost says that the backend was lost.
func (s *suspects) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for about, wrong := range s.asked {
		_, known := s.losses[about]
		if (wrong.IsZero() || time.Since(wrong) <= lossLag) && (known || len(s.losses) < mostSuspects) {
			s.losses[about]++
		}
	}
	clear(s.asked)
}

// givenUp says whether a shape is not to be asked for any more.
func (s *suspects) givenUp(about suspect) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.losses[about] >= lossesBorne
}

// Lost says that the backend is gone, before the context of what is under way ends for that.
func (r *Runner) Lost() { r.suspects.lost() }

// suspect is what the shape is remembered by.
func (s *shape) suspect() suspect {
	return suspect{step: s.report.Step, model: s.report.Model, of: s.shape, concurrency: s.concurrency}
}

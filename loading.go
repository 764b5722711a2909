package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// look is one look at a backend that told a user that it is loading. One at a time, and whoever comes before it has begun shares it: a flood of such answers costs
// the backend no flood of questions.
type look struct {
	token chan struct{}
	began time.Time // of the latest one; belongs to the holder of the token
}

func newLook() *look { return &look{token: make(chan struct{}, 1)} }

// unavailable returns once it is known whether the backend, which told a user that it is unavailable, is loading what was warm: then the gate holds. A user's answer alone takes
// no pod out, since callers may have a part in it: the server is asked. If it says that all is well, though it told a user that it is loading, it has to prove it by an inference.
func (p *pilot) unavailable(ctx context.Context, loading bool) (cold bool) {
	told := time.Now()
	select {
	case p.looking.token <- struct{}{}:
		defer func() { <-p.looking.token }()
	case <-ctx.Done():
		return false
	}
	if p.looking.began.Before(told) && p.machine.Pod().Serves() {
		p.looking.began = time.Now()
		p.lookLoading(ctx, loading)
	}

	state := p.machine.Pod()

	return state == health.Starting || state == health.Warming || state == health.Cold
}

// lookLoading makes the gate hold if the backend is loading.
func (p *pilot) lookLoading(ctx context.Context, loading bool) {
	limited, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	_ = p.check(limited) // warms anew by itself what the server says is cold
	if !loading || !p.machine.Pod().Serves() {
		return
	}
	err := p.synthetic(ctx)
	if failed, ok := errors.AsType[*backend.Error](err); !ok || !failed.Loading() {
		return
	}
	if err := p.keeper.Rewarm(fmt.Sprintf("the backend is loading: %v", err)); err != nil {
		p.logger.Debug("a backend that is loading is not warmed anew", "error", err)
	}
}

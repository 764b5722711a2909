package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// look is one look at a backend that told a user that it is loading. One at a time, and whoever comes before it has begun shares it: a flood of such answers costs
// the backend no flood of questions.
type look struct {
	token chan struct{}
	began time.Time // of the latest one; belongs to the holder of the token
}

func newLook() *look { return &look{token: make(chan struct{}, 1)} }

// loading returns once it is known whether the backend, which told a user so, is loading what was warm: if it is, the gate holds then. A user's answer alone takes no pod
// out, since callers may have a part in it: the server is asked, and when it says that all is well it has to prove it by an inference.
func (p *pilot) loading(ctx context.Context) {
	told := time.Now()
	select {
	case p.looking.token <- struct{}{}:
		defer func() { <-p.looking.token }()
	case <-ctx.Done():
		return
	}
	if p.looking.began.After(told) || !p.machine.Pod().Serves() {
		return
	}
	p.looking.began = time.Now()
	limited, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	_ = p.check(limited) // warms anew by itself what the server says is cold
	if !p.machine.Pod().Serves() {
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

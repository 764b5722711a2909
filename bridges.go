package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// dial connects to the backend.
func (p *pilot) dial(ctx context.Context) (net.Conn, error) {
	return proxy.Dialer().DialContext(ctx, p.address.Network, p.address.Host)
}

// readyPath answers the backend's own ready paths truthfully on the data port.
func (p *pilot) readyPath(path string) (answer func() bool, ok bool) {
	found := p.pathway(path)
	if !found.ready {
		return nil, false
	}

	return func() bool {
		if ready, known := p.machine.ModelReady(found.model); known {
			return ready
		}

		return p.machine.Ready()
	}, true
}

// pathway says what the backend takes a path for.
func (p *pilot) pathway(path string) pathway { return p.pathways.find(p.runner.Paths(), path) }

// denied returns what says which paths are not for callers of the data port. What Pilotlight asks the backend itself does not come that way.
func (p *pilot) denied() func(path string) bool {
	if deny := p.config.Listen.Deny; deny != nil {
		return proxy.DenyPaths(deny)
	}

	return func(path string) bool { return p.pathway(path).control }
}

// syntheticTimeout limits one synthetic request.
func (p *pilot) syntheticTimeout() time.Duration {
	if timeout := p.config.Health.Timeout; timeout.Set {
		return timeout.Value.Std()
	}

	return max(syntheticTimeout, syntheticLevels*p.runner.Level())
}

// synthetic makes one inference for each required model, within its limit.
func (p *pilot) synthetic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.syntheticTimeout())
	defer cancel()

	return p.tallies.checking(p.runner.Synthetic)(ctx)
}

// ask is a synthetic request for the breaker.
func (p *pilot) ask(ctx context.Context) error {
	err := p.tallies.checking(p.runner.Synthetic)(ctx)
	if errors.Is(err, backend.ErrNoRequest) {
		return errors.Join(circuit.ErrNoSynthetic, err)
	}

	return err
}

// answered takes a user's request that was answered well.
func (p *pilot) answered(seen proxy.Observation) {
	p.live.cold.observe(seen)
	p.recorder.See(liveShape(seen.Shape))
}

// keepWarm keeps the backend warm until ctx ends, where that is asked for.
func (p *pilot) keepWarm(ctx context.Context) *sync.WaitGroup {
	var keeping sync.WaitGroup
	if after := p.config.Warmup.KeepWarm.Std(); after > 0 {
		kept := warmup.KeepWarm{
			After: after, Serving: func() bool { return p.machine.Pod().Serves() }, Idle: p.breaker.Idle, Synthetic: p.synthetic,
		}
		keeping.Go(func() { kept.Run(ctx) })
	}

	return &keeping
}

// quiet is how long no user must have been under way for the background to go on: between two users of a busy pod there is always a moment.
const quiet = time.Second

// occupied says why shapes that nobody waits for had better not be warmed now.
func (p *pilot) occupied() string {
	if p.breaker.Idle() < quiet {
		return "users are served"
	}

	return ""
}

// circuitMoved tells the keeper what the breaker decided.
func (p *pilot) circuitMoved(from, to circuit.State, reason string) {
	p.tallies.moved(from, to)
	switch {
	case to == circuit.Open:
		code := health.CodeBreakerOpen
		switch {
		case health.IsFatal(reason): // only answers to synthetic requests are quoted there
			code = health.CodeFatalBackend
		case strings.HasPrefix(reason, string(health.CodeStalled)):
			code = health.CodeStalled
		}
		p.keeper.Opened(code, reason)
	case from == circuit.Open:
		p.keeper.Healed(reason)
	}
}

// gone is told that the backend has been lost. While the pod drains nobody starts it again, so those who wait had better try elsewhere.
func (p *pilot) gone() {
	p.runner.Lost()
	p.breaker.Lost()
	p.birth.Lost()
	if p.machine.Pod() == health.Draining {
		p.gate.Refuse(proxy.PodDraining)
	}
}

// dialWarmed connects to the backend for a user's request. If another process answers than the one that was warmed, that is as good as nobody: the request is held.
func (p *pilot) dialWarmed(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := proxy.Dialer().DialContext(ctx, network, address)
	if err != nil || address != p.address.Host || p.incarnation.Same(time.Now()) {
		return connection, err
	}

	return nil, errors.Join(&net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("another process listens at %s: %w", address, syscall.ECONNREFUSED)}, connection.Close())
}

// warm runs the plan once, for the keeper.
func (p *pilot) warm(ctx context.Context, up func()) ([]health.ModelWarmth, error) {
	var noting sync.WaitGroup // it may take a millisecond, and the first inference should not wait for it
	begin := func() {
		noting.Go(p.incarnation.Warm)
		noting.Go(p.birth.Seen)
		up()
	}
	p.up.Store(&begin)
	p.tallies.settle(p.runner.Report()) // of the run before this one, whose background has ended too
	report, err := p.runner.Run(ctx)
	p.live.learn(report, p.breaker.Learn)
	noting.Wait()
	if err != nil {
		return nil, named(err)
	}
	found := make([]health.ModelWarmth, 0, len(report.Models))
	for _, model := range report.Models {
		warmth, err := p.judge(model)
		if err != nil {
			return nil, err
		}
		found = append(found, warmth)
	}

	return found, nil
}

// named puts a failed warm-up under the condition that explains it.
func named(err error) error {
	code := health.CodeWarmFailed
	if errors.Is(err, backend.ErrCredentialsRefused) {
		code = health.CodeCredentialsRefused
	}

	return &health.ConditionError{Code: code, Err: err}
}

// warmModel runs what one model needs of the plan, for the keeper.
func (p *pilot) warmModel(ctx context.Context, model string) (health.ModelWarmth, error) {
	report, err := p.runner.RunModel(ctx, model)
	p.live.learn(p.runner.Report(), p.breaker.Learn)
	if err != nil {
		return health.ModelWarmth{}, named(err)
	}

	return p.judge(report)
}

// prepare runs what goes before the backend. It ends with ctx, since the first actor to end ends all.
func (p *pilot) prepare(ctx context.Context) error {
	p.runner.Prepare(ctx)
	<-ctx.Done()

	return nil
}

// rewarm warms again what the operator asks for: one model, or all.
func (p *pilot) rewarm(model string) error {
	const reason = "asked for by the operator"
	if model == "" {
		return p.keeper.Rewarm(reason)
	}

	return p.keeper.RewarmModel(model, reason)
}

// judge turns what the runner found about a model into its state, by the policies.
func (p *pilot) judge(model warmup.ModelReport) (health.ModelWarmth, error) {
	warmth := health.ModelWarmth{
		ModelConfig: health.ModelConfig{Name: model.Name, Required: required(p.config, model.Name)},
		State:       health.Ready,
		Text:        model.Text,
	}
	if len(model.Reasons) > 0 {
		warmth.Code = health.Code(model.Reasons[0].String())
	}
	switch model.Outcome {
	case warmup.Warm, warmup.Unwarmed:
	case warmup.Degraded:
		warmth.State = health.Degraded
		if model.Unsettled() && warmth.Required && p.config.Warmup.NotConverged == warmup.StayUnready {
			return warmth, &health.ConditionError{Code: warmth.Code, Err: errors.New(model.Text)}
		}
	case warmup.Failed, warmup.Pending:
		warmth.State = health.Warming
	}

	return warmth, nil
}

// progress passes on what others wait for: that the backend answers, and what it is that keeps the plan waiting.
func (p *pilot) progress(event warmup.Event) {
	switch event.Kind {
	case warmup.BackendUp:
		(*p.up.Load())()
	case warmup.Waiting:
		p.awaited(event.Error)
	case warmup.ModelsFound:
		models := make([]health.ModelConfig, 0, len(event.Models))
		for _, name := range event.Models {
			models = append(models, health.ModelConfig{Name: name, Required: required(p.config, name)})
		}
		p.keeper.ModelsFound(models)
	case warmup.ModelEnded:
		if warmth, err := p.judge(event.Model); err == nil {
			p.keeper.ModelEnded(warmth)
		}
	case warmup.BackgroundEnded:
		if warmth, err := p.judge(event.Model); err == nil {
			p.keeper.BackgroundEnded(warmth)
			p.live.learn(p.runner.Report(), p.breaker.Learn)
		}
	case warmup.PutOff:
		if event.Text == "" {
			p.machine.Clear("", health.CodeWaitingForCalm)
		} else {
			p.machine.Raise("", health.CodeWaitingForCalm, event.Text)
		}
	case warmup.StepStarted, warmup.StepEnded, warmup.Prefetching:
	}
}

// check asks the backend about each required model, without any inference. What was loaded anew, or no longer is, is cold, which is not sick.
func (p *pilot) check(ctx context.Context) error {
	err := p.runner.Check(ctx)
	cold, ok := errors.AsType[*warmup.ColdError](err)
	switch {
	case ok && p.machine.Pod() == health.Idle:
		return nil // cold on purpose
	case ok && cold.Unloaded && p.config.Backend.IdleUnload == config.IdleUnloadAllow:
		return p.keeper.Rest(cold.Error())
	case ok:
		return p.keeper.Rewarm(cold.Error())
	}

	return err
}

// awaited makes a condition of what the plan waits for; nil clears it.
func (p *pilot) awaited(cause error) {
	for _, code := range []health.Code{health.CodeBackendUnreachable, health.CodeModelNotLoaded, health.CodeNotRecognised} {
		p.machine.Clear("", code)
	}
	if cause == nil {
		return
	}
	code := health.CodeBackendUnreachable
	if errors.Is(cause, backend.ErrNotRecognised) {
		code = health.CodeNotRecognised
	} else if answered, ok := errors.AsType[*backend.Error](cause); ok && answered.Status != 0 {
		code = health.CodeModelNotLoaded
	}
	p.machine.Raise("", code, cause.Error())
}

func modelNames(models []health.ModelConfig) []string {
	names := make([]string, 0, len(models))
	for _, model := range models {
		names = append(names, model.Name)
	}

	return names
}

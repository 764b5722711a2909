package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// tallies counts what no room keeps count of, for metrics.
type tallies struct {
	health atomic.Int64 // connections to the health port

	mu      sync.Mutex
	reloads map[string]uint64
	moves   map[[2]circuit.State]uint64
	checks  [2]uint64 // synthetic requests beside the plan: answered, failed
	settled warmed
}

// warmed is what the runs of the plan up to one of them have asked of the backend, which each run counts from 0.
type warmed struct{ run, requests, busy int }

// reloaded takes the result of a reload of the configuration.
func (t *tallies) reloaded(result string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reloads[result]++
}

func (t *tallies) moved(from, to circuit.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves[[2]circuit.State{from, to}]++
}

// settle takes the report of a run that is over, once.
func (t *tallies) settle(report warmup.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if report.Run > t.settled.run {
		t.settled = warmed{report.Run, t.settled.requests + report.Requests, t.settled.busy + report.Busy}
	}
}

// checking counts the synthetic requests that ask makes.
func (t *tallies) checking(ask func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := ask(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case err == nil:
			t.checks[0]++
		case !errors.Is(err, backend.ErrNoRequest): // nothing was asked
			t.checks[1]++
		}

		return err
	}
}

// counting counts the connections of a server.
func counting(server *http.Server, open *atomic.Int64) {
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
}

// wireTelemetry makes the ways by which metrics and traces leave.
func (p *pilot) wireTelemetry(backendTLS *tls.Config) (err error) {
	p.tallies = tallies{reloads: map[string]uint64{"applied": 0, "refused": 0, "failed": 0}, moves: map[[2]circuit.State]uint64{}}
	p.telemetry, err = telemetry.New(telemetry.Settings{
		Config: p.config.Telemetry, Version: version(), Backend: p.backendMetrics(backendTLS), Logger: p.logger,
	})
	if err != nil {
		return fmt.Errorf("wire telemetry: %w", err)
	}

	return nil
}

// backendMetrics returns what fetches the backend's own metrics.
func (p *pilot) backendMetrics(backendTLS *tls.Config) func(context.Context) (io.ReadCloser, error) {
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		TLSClientConfig:   clientTLS(p.address, backendTLS),
		DisableKeepAlives: true, // an idle connection would outlive the backend that it leads to
	}
	url := "http://" + p.address.Host + p.address.Base + "/metrics"
	switch {
	case p.address.Network == "unix":
		url = "http://localhost" + p.address.Base + "/metrics"
	case p.address.TLS:
		url = "https://" + p.address.Host + p.address.Base + "/metrics"
	}

	return func(ctx context.Context) (io.ReadCloser, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", "text/plain;version=0.0.4")
		answer, err := transport.RoundTrip(request) // not by a client, which would follow a redirect to who knows where
		if err != nil {
			return nil, err
		}
		if answer.StatusCode != http.StatusOK {
			_ = answer.Body.Close()

			return nil, &backend.Error{Act: "GET /metrics", Status: answer.StatusCode}
		}

		return answer.Body, nil
	}
}

// withMetrics serves /metrics beside what else there is on the health port.
func withMetrics(page, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			page.ServeHTTP(w, r)
		} else {
			rest.ServeHTTP(w, r)
		}
	})
}

// observe tells the facts that rooms know, for one scrape or push.
func (p *pilot) observe(o *telemetry.Observer) {
	observeGate(o, p.gate.Snapshot())
	o.Set(telemetry.Connections, float64(p.handler.Connections().Open), "data")
	observeHealth(o, p.machine.Snapshot())
	observeBreaker(o, p.breaker.Snapshot())
	observeXDS(o, p.publisher)
	report := p.runner.Report()
	observeWarmup(o, report)
	p.tallies.observe(o, report)
	p.live.cold.tell(o)
}

func observeGate(o *telemetry.Observer, gate proxy.GateSnapshot) {
	for _, mode := range proxy.ModeValues() {
		o.Flag(telemetry.GateMode, gate.Mode == mode, mode.String())
	}
	o.Set(telemetry.GatePermits, float64(gate.Permits))
	o.Set(telemetry.GatePermitted, float64(gate.Permitted))
	o.Set(telemetry.InFlight, float64(gate.InFlight))
	o.Set(telemetry.HoldRequests, float64(gate.Held))
	o.Set(telemetry.HoldOldest, gate.LongestHeld.Seconds())
	o.Set(telemetry.HoldMemory, float64(gate.HeldBytes))
	o.Set(telemetry.HoldMemoryLimit, float64(gate.HeldBytesLimit))
	for _, outcome := range proxy.OutcomeValues() {
		o.Set(telemetry.HoldWaits, float64(gate.Outcomes[outcome]), outcome.String())
	}
}

func observeHealth(o *telemetry.Observer, now health.Snapshot) {
	for _, state := range health.StateValues() {
		o.Flag(telemetry.PodState, now.State == state, state.String())
	}
	o.Flag(telemetry.PodReady, now.Ready)
	conditions := func(model string, all []health.Condition) {
		for _, condition := range all {
			o.Set(telemetry.ConditionActive, 1, string(condition.Code), condition.Severity.String(), model)
		}
	}
	conditions("", now.Conditions)
	for _, model := range now.Models {
		o.Set(telemetry.ModelState, 1, model.Name, model.State.String())
		o.Flag(telemetry.ModelReady, model.Ready, model.Name)
		conditions(model.Name, model.Conditions)
	}
}

func observeBreaker(o *telemetry.Observer, breaker circuit.Snapshot) {
	for _, state := range circuit.StateValues() {
		o.Flag(telemetry.BreakerState, breaker.State == state, state.String())
	}
	o.Set(telemetry.BreakerOldest, breaker.OldestInFlight.Std().Seconds())
}

// observeXDS tells nothing where nobody is told anything over xDS.
func observeXDS(o *telemetry.Observer, publisher *xds.Publisher) {
	if publisher == nil {
		return
	}
	streams, refused := publisher.Counts()
	o.Set(telemetry.XDSStreams, float64(streams))
	for resource, n := range refused {
		o.Set(telemetry.XDSNACKs, float64(n), resource)
	}
}

func observeWarmup(o *telemetry.Observer, report warmup.Report) {
	o.Set(telemetry.WarmupRuns, float64(report.Run))
	o.Flag(telemetry.WarmupRunning, report.Run > 0 && report.Running)
	o.Set(telemetry.WarmupGPUTime, report.GPUTimeInAll.Seconds())
	o.Set(telemetry.WarmupRemaining, report.Remaining.Seconds())
	if report.Run > 0 {
		end := report.Ended
		if report.Running {
			end = time.Now()
		}
		o.Set(telemetry.WarmupDuration, end.Sub(report.Started).Seconds())
	}
	for _, step := range report.Steps {
		o.Set(telemetry.StepDuration, step.Took.Seconds(), step.Name, step.Kind.String(), step.State.String())
		if step.Pages != nil {
			observePages(o, step.Name, *step.Pages)
		}
	}
	for _, shape := range report.Shapes {
		labels := []string{shape.Model, shape.Step, shape.Of.String(), strconv.Itoa(shape.Concurrency)}
		and := func(more string) []string { return append(slices.Clip(labels), more) }
		o.Set(telemetry.ShapeState, 1, and(shape.State.String())...)
		o.Set(telemetry.ShapeRequests, float64(shape.Seen.N), labels...)
		if shape.Seen.N == 0 {
			continue // 0 would be read as very fast
		}
		o.Set(telemetry.ShapeLatency, shape.Seen.First.Seconds(), and("first")...)
		o.Set(telemetry.ShapeLatency, shape.Seen.Slowest.Seconds(), and("slowest")...)
		o.Set(telemetry.ShapeLatency, shape.Seen.Level.Seconds(), and("level")...)
		o.Set(telemetry.ShapeLatency, shape.Seen.P95.Seconds(), and("p95")...)
		o.Set(telemetry.ShapeColdEvents, float64(shape.Seen.ColdEvents), labels...)
		o.Set(telemetry.ShapeColdRate, shape.Seen.UpperColdRate, labels...)
	}
}

func observePages(o *telemetry.Observer, step string, read pages.Report) {
	o.Set(telemetry.PrefetchBytes, float64(read.Bytes), step, "all")
	o.Set(telemetry.PrefetchBytes, float64(read.Cached), step, "cached")
	o.Set(telemetry.PrefetchBytes, float64(read.Read), step, "read")
	if share, ok := read.Resident(); ok {
		o.Set(telemetry.PrefetchResident, share, step)
	}
}

// observe tells what is counted here, given the report of the present run.
func (t *tallies) observe(o *telemetry.Observer, report warmup.Report) {
	o.Set(telemetry.Connections, float64(t.health.Load()), "health")
	t.mu.Lock()
	defer t.mu.Unlock()
	for result, n := range t.reloads {
		o.Set(telemetry.ConfigReloads, float64(n), result)
	}
	for move, n := range t.moves {
		o.Set(telemetry.BreakerMoves, float64(n), move[0].String(), move[1].String())
	}
	now := t.settled
	if report.Run > now.run {
		now.requests, now.busy = now.requests+report.Requests, now.busy+report.Busy
	}
	o.Set(telemetry.SyntheticRequests, float64(now.requests), "warmup", "answered")
	o.Set(telemetry.SyntheticRequests, float64(now.busy), "warmup", "busy")
	o.Set(telemetry.SyntheticRequests, float64(t.checks[0]), "check", "answered")
	o.Set(telemetry.SyntheticRequests, float64(t.checks[1]), "check", "failed")
}

// flush sends the last of the telemetry, when the drain is over and within a limit of its own.
func (p *pilot) flush() {
	if err := p.telemetry.Shutdown(context.Background()); err != nil {
		p.logger.Warn("some telemetry could not be delivered in the end", "error", err, "limit", slog.DurationValue(telemetry.FlushLimit))
	}
}

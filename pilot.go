package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/status"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// pilot is one running Pilotlight: the rooms, wired. Rooms know each other by the functions given here and by nothing else.
type pilot struct {
	config *config.Config // as it was at the start
	latest atomic.Pointer[config.Config]
	logger *slog.Logger

	address units.Address // of the backend
	scratch string        // folder of the worker's socket; empty without a worker
	worker  *worker

	client  *backend.Client
	runner  *warmup.Runner
	machine *health.Machine
	watch   *health.Watch
	keeper  *health.Keeper
	// incarnation is the process that is being warmed, or was.
	incarnation *health.Incarnation
	birth       *health.Birth
	gate        *proxy.Gate
	breaker     *circuit.Breaker
	handler     *proxy.Handler
	telemetry   *telemetry.Telemetry
	publisher   *xds.Publisher // nil: nobody is told
	tallies     tallies
	live        liveShapes
	recorder    *warmup.ShapeRecorder // nil: nothing is recorded
	pathways    pathways

	// up is called when the backend answers for the first time in a run of the plan.
	up        atomic.Pointer[func()]
	listening atomic.Bool
	leaving   *drain
	looking   *look

	secure *certificates // of the data port; nil: no TLS
	// data is the server of the data port, extra those of the further addresses, in their order.
	data, health, admin *http.Server
	extra               []*http.Server
}

const (
	// endpointTimeout limits a check by an endpoint, and syntheticTimeout one by an inference, unless health.timeout says otherwise.
	endpointTimeout  = 2 * time.Second
	syntheticTimeout = 5 * time.Second
	// syntheticLevels is how many times its warm level a synthetic request may take.
	syntheticLevels = 10
	// slowClient bounds what a client of the health and admin ports may take to send its few bytes.
	slowClient = 5 * time.Second
	// quietClient is how long an HTTP/2 connection to the health port may be silent before its client is asked whether it is still there.
	quietClient = 30 * time.Second
)

// newPilot wires the rooms in the order in which they need each other; where they need each other in a circle, a closure over p closes it.
func newPilot(c *config.Config, logger *slog.Logger) (*pilot, error) {
	p := &pilot{config: c, logger: logger, address: c.Backend.Address(), leaving: newDrain(), looking: newLook()}
	p.latest.Store(c)
	p.live.cold.logger = logger
	p.recorder = warmup.NewShapeRecorder(c.Warmup.RecordShapes, logger)
	if c.Backend.Embedded() {
		if err := p.embed(); err != nil {
			return nil, err
		}
	}
	backendTLS, err := c.Backend.TLS.Load()
	if err == nil && !c.Listen.TLS.IsZero() {
		p.secure, err = newCertificates("listen.tls", c.Listen.TLS, logger)
	}
	if err == nil {
		err = errors.Join(p.wireTelemetry(backendTLS), p.wireWarmup(backendTLS))
	}
	if err != nil {
		p.close()

		return nil, err
	}
	p.wireHealth()
	p.wireProxy(backendTLS)
	p.wirePorts()
	if err := errors.Join(p.wireXDS(), p.telemetry.Observe(p.observe)); err != nil {
		p.close()

		return nil, err
	}

	return p, nil
}

// wireWarmup makes what speaks to the backend by itself.
func (p *pilot) wireWarmup(backendTLS *tls.Config) (err error) {
	p.client, p.runner, err = newWarmup(p.config, p.address, backendTLS, warmup.Settings{
		Calm:       calm.New(p.config.Warmup.Pressure, nil),
		Background: p.config.Readiness.ReadyAfter == health.AfterRequired,
		Occupied:   p.occupied,
		Serving:    func() bool { return p.machine.Pod().Serves() },
		Progress:   p.progress,
		Answered:   p.live.answered,
		Recorded:   p.recorder.Shapes,
		Logger:     p.logger,
	})

	return err
}

// clientTLS is how synthetic requests reach a backend at an https address; nil at any other.
func clientTLS(address units.Address, config *tls.Config) *tls.Config {
	if !address.TLS {
		return nil
	}

	return config
}

// wireHealth makes what knows how the backend is.
func (p *pilot) wireHealth() {
	c := p.config
	p.machine = health.NewMachine(health.Settings{
		Models:    c.Models,
		Readiness: c.Readiness,
		Moved:     func(move health.Move) { p.gate.Follow(move) },
		Backlog:   func() int { return p.gate.Backlog() },
		Logger:    p.logger,
	})
	identity := health.ListenerIdentity(p.address.Network, p.address.Host)
	p.incarnation = health.NewIncarnation(identity)
	p.birth = health.NewBirth(identity, health.ListenerStart)
	watch := health.WatchSettings{
		Dial:             p.dial,
		Identity:         identity,
		Interval:         c.Health.Interval.Std(),
		Timeout:          c.Health.Timeout.Or(units.Duration(endpointTimeout)).Std(),
		FailuresToReport: c.Health.UnhealthyAfter,
		Logger:           p.logger,
	}
	confirm := p.synthetic
	switch c.Health.ActiveCheck {
	case health.CheckAuto:
		watch.Check = p.check
	case health.CheckEndpoint:
		watch.Check, confirm = p.check, nil
	case health.CheckInference:
		watch.Check, watch.Timeout = p.tallies.checking(p.runner.Synthetic), p.syntheticTimeout()
	case health.CheckNone:
	}
	var report func(health.WatchEvent)
	watch.Report = func(event health.WatchEvent) { report(event) }
	p.watch = health.NewWatch(watch)
	p.breaker = circuit.New(circuit.Settings{
		Config:           c.Circuit,
		Synthetic:        p.ask,
		SyntheticTimeout: p.syntheticTimeout,
		Moved:            p.circuitMoved,
		UsersFailing:     func(on bool, text string) { p.keeper.UsersFailing(on, text) },
		Logger:           p.logger,
	})
	p.keeper = health.NewKeeper(health.KeeperSettings{
		Machine:    p.machine,
		Warm:       p.warm,
		WarmModel:  p.warmModel,
		Background: p.runner.Background,
		Watch: func(ctx context.Context, to func(health.WatchEvent)) {
			report = to // no watch is running: they follow one another
			keeping := p.keepWarm(ctx)
			_ = p.watch.Run(ctx)
			keeping.Wait()
		},
		Confirm:           confirm,
		Sick:              p.breaker.Trip,
		Gone:              p.gone,
		WarmWhileDraining: func() { p.gate.Ramp(c.Concurrency.Ramp.Start) },
		OnDemand:          c.Warmup.Trigger == warmup.TriggerFirstRequest,
		Answers:           p.runner.Answers,
		Waiting:           func() bool { return p.gate.Backlog() > 0 },
		ServeUnwarmed:     c.Warmup.OnFailure == warmup.Serve,
		Logger:            p.logger,
	})
}

// wireProxy makes what stands in users' way.
func (p *pilot) wireProxy(backendTLS *tls.Config) {
	c := p.config
	limits := c.Limits
	if most := connectionRoom(); limits.Connections == 0 || limits.Connections > most {
		p.logger.Info("fewer connections fit than limits.connections allows, since a process may have only so many file descriptors", "limit", limits.Connections, "fit", most)
		limits.Connections = most
	}
	proxy.BoundGarbage(int64(c.Hold.Memory.Value))
	p.gate = proxy.NewGate(proxy.GateSettings{
		Hold:        c.Hold,
		Memory:      int64(c.Hold.Memory.Value),
		Concurrency: c.Concurrency,
		WhileOpen:   c.Circuit.WhileOpen,
		RetryAfter:  p.runner.Remaining,
		Remaining:   p.runner.Remaining,
		Released:    p.machine.Released,
		Held:        p.keeper.Asked,
		Logger:      p.logger,
	})
	p.handler = proxy.NewHandler(proxy.Settings{
		Backend:           p.address,
		Transport:         c.Backend.Transport,
		DialContext:       p.dialWarmed,
		GRPC:              c.Backend.GRPC,
		Gate:              p.gate,
		Breaker:           p.breaker,
		BackendTLS:        backendTLS,
		TLS:               p.secure.server(),
		Forwarded:         c.Listen.Forwarded,
		Limits:            limits,
		Timeouts:          c.Timeouts,
		Hold:              c.Hold,
		ConnectTimeout:    c.Backend.ConnectTimeout.Std(),
		IdleConnections:   c.Backend.IdleConnections.Max,
		IdleTimeout:       c.Backend.IdleConnections.Timeout.Std(),
		ClientIdleTimeout: c.Listen.IdleTimeout.Std(),
		MaxConnectionAge:  c.Listen.MaxConnectionAge.Std(),
		Denied:            p.denied(),
		ReadyPaths:        p.readyPath,
		LivePath:          func(path string) bool { return path == "/metrics" || p.pathway(path).live },
		Lost:              p.keeper.Lost,
		Unavailable:       p.unavailable,
		Suspect:           p.watch.Look,
		Observed:          p.answered,
		State:             p.machine.Pod,
		ServerTiming:      c.Telemetry.ServerTiming,
		Meter:             p.telemetry.Meter(),
		Tracer:            p.telemetry.Tracer(),
		Propagator:        p.telemetry.Propagator(),
		Logger:            p.logger,
	})
	p.data = p.handler.Server()
	for _, extra := range c.Listen.Extra {
		p.extra = append(p.extra, p.handler.ServerTo(extra.To))
	}
}

// wirePorts makes what Kubernetes and people look at.
func (p *pilot) wirePorts() {
	endpoints := health.NewEndpoints(health.EndpointSettings{
		Machine: p.machine,
		Started: func() bool { return p.listening.Load() && p.runner.Prepared() },
		Drained: p.drainz,
		Restart: &health.Restart{Policy: p.config.Health.RestartBackend, Grace: p.config.Health.RestartGrace.Std(), Machine: p.machine, Birth: p.birth},
	})
	services := health.NewGRPC(p.machine, withMetrics(p.telemetry.Page(), endpoints))
	p.health = &http.Server{
		Handler:           services,
		Protocols:         plainProtocols(),
		ReadHeaderTimeout: slowClient,
		// Whoever watches says nothing for hours; only a ping tells one that listens from one that is gone.
		HTTP2:    &http.HTTP2Config{SendPingTimeout: quietClient, PingTimeout: slowClient, WriteByteTimeout: slowClient},
		ErrorLog: slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug),
	}
	p.health.RegisterOnShutdown(services.Close)
	counting(p.health, &p.tallies.health)
	token, err := status.LoadToken(p.config.Listen.AdminTokenFile.Value)
	switch path := p.config.Listen.AdminTokenFile.Value; {
	case err != nil:
		p.logger.Warn("there is no admin token, so nobody may act at the admin port", "error", err)
	case status.TokenIsExposed(path):
		p.logger.Warn("others than its owner may read the admin token", "file", path)
	default:
		p.logger.Info("who acts at the admin port needs the token", "file", path)
	}
	p.admin = &http.Server{
		Handler: status.NewAdmin(status.Settings{
			Health:  p.machine.Snapshot,
			Gate:    func() any { return p.gate.Snapshot() },
			Clients: func() any { return p.handler.Connections() },
			Circuit: func() any { return p.breaker.Snapshot() },
			Warmup:  func() any { return p.runner.Report() },
			Cold:    p.live.cold.report,
			Version: version(),
			Config:  p.effective,
			Token:   token,
			Warm:    p.rewarm,
			Drain:   func() { p.beginDrain("asked for by the operator") },
			Quit:    p.quit,
			Logger:  p.logger,
		}),
		ReadHeaderTimeout: slowClient,
		ReadTimeout:       slowClient,
		ErrorLog:          slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug),
	}
}

func plainProtocols() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	return protocols
}

// close gives back what a pilot holds outside its actors.
func (p *pilot) close() {
	if p.handler != nil {
		p.handler.Close()
	}
	if p.telemetry != nil {
		p.flush()
	}
	if p.scratch != "" {
		_ = os.RemoveAll(p.scratch)
	}
}

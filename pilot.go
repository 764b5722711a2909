package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/status"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
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
	server  *backend.OIP
	runner  *warmup.Runner
	machine *health.Machine
	watch   *health.Watch
	keeper  *health.Keeper
	gate    *proxy.Gate
	breaker *circuit.Breaker
	handler *proxy.Handler

	// up is called when the backend answers for the first time in a run of the plan.
	up        atomic.Pointer[func()]
	listening atomic.Bool

	data, health, admin *http.Server
}

const (
	// endpointTimeout limits a check by an endpoint, and syntheticTimeout one by an inference, unless health.timeout says otherwise.
	endpointTimeout  = 2 * time.Second
	syntheticTimeout = 5 * time.Second
	// syntheticLevels is how many times its warm level a synthetic request may take.
	syntheticLevels = 10
	// slowClient bounds what a client of the health and admin ports may take to send its few bytes.
	slowClient = 5 * time.Second
)

// newPilot wires the rooms in the order in which they need each other; where they need each other in a circle, a closure over p closes it.
func newPilot(c *config.Config, logger *slog.Logger) (*pilot, error) {
	p := &pilot{config: c, logger: logger, address: c.Backend.HTTP}
	p.latest.Store(c)
	if c.Backend.Embedded() {
		if err := p.embed(); err != nil {
			return nil, err
		}
	}
	if err := p.wireWarmup(); err != nil {
		p.close()

		return nil, err
	}
	p.wireHealth()
	p.wireProxy()
	p.wirePorts()

	return p, nil
}

// wireWarmup makes what speaks to the backend by itself.
func (p *pilot) wireWarmup() (err error) {
	c := p.config
	p.client, err = backend.NewClient(backend.ClientSettings{
		Network:        p.address.Network,
		Address:        p.address.Host,
		BasePath:       p.address.Base,
		TLS:            clientTLS(p.address),
		Headers:        c.Backend.SyntheticHeaders,
		Version:        version(),
		ConnectTimeout: c.Backend.ConnectTimeout.Std(),
	})
	if err != nil {
		return err
	}
	p.server = backend.NewOIP(p.client)
	settings := warmup.Settings{
		Config:   c.Warmup,
		Client:   p.client,
		Models:   modelNames(c.Models),
		Required: p.required,
		Workers:  c.Backend.Workers.Or(0),
		Progress: p.progress,
		Logger:   p.logger,
	}
	if c.Backend.Type == config.TypeOIP || c.Backend.Embedded() {
		settings.Dialect = p.server
	}
	p.runner, err = warmup.NewRunner(settings)

	return err
}

// clientTLS is how synthetic requests reach a backend at an https address: verified against the system's roots.
func clientTLS(address units.Address) *tls.Config {
	if !address.TLS {
		return nil
	}

	return &tls.Config{MinVersion: tls.VersionTLS12}
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
	watch := health.WatchSettings{
		Dial:             p.dial,
		Identity:         health.ListenerIdentity(p.address.Network, p.address.Host),
		Interval:         c.Health.Interval.Std(),
		Timeout:          c.Health.Timeout.Or(units.Duration(endpointTimeout)).Std(),
		FailuresToReport: c.Health.UnhealthyAfter,
		Logger:           p.logger,
	}
	confirm := p.synthetic
	switch c.Health.ActiveCheck {
	case health.CheckAuto:
		watch.Check = p.runner.Check
	case health.CheckEndpoint:
		watch.Check, confirm = p.runner.Check, nil
	case health.CheckInference:
		watch.Check, watch.Timeout = p.runner.Synthetic, p.syntheticTimeout()
	case health.CheckNone:
	}
	var report func(health.WatchEvent)
	watch.Report = func(event health.WatchEvent) { report(event) }
	p.watch = health.NewWatch(watch)
	p.breaker = circuit.New(circuit.Settings{
		Config:           c.Circuit,
		Synthetic:        p.runner.Synthetic,
		SyntheticTimeout: p.syntheticTimeout,
		Moved:            p.circuitMoved,
		UsersFailing:     func(on bool, text string) { p.keeper.UsersFailing(on, text) },
		Logger:           p.logger,
	})
	p.keeper = health.NewKeeper(health.KeeperSettings{
		Machine: p.machine,
		Warm:    p.warm,
		Watch: func(ctx context.Context, to func(health.WatchEvent)) {
			report = to // no watch is running: they follow one another
			_ = p.watch.Run(ctx)
		},
		Confirm:           confirm,
		Sick:              p.breaker.Trip,
		Gone:              p.gone,
		WarmWhileDraining: func() { p.gate.Ramp(c.Concurrency.Ramp.Start) },
		ServeUnwarmed:     c.Warmup.OnFailure == warmup.Serve,
		Logger:            p.logger,
	})
}

// wireProxy makes what stands in users' way.
func (p *pilot) wireProxy() {
	c := p.config
	p.gate = proxy.NewGate(proxy.GateSettings{
		Hold:        c.Hold,
		Memory:      int64(c.Hold.Memory.Value),
		Concurrency: c.Concurrency,
		WhileOpen:   c.Circuit.WhileOpen,
		RetryAfter:  p.runner.Remaining,
		Remaining:   p.runner.Remaining,
		Released:    p.machine.Released,
		Logger:      p.logger,
	})
	p.handler = proxy.NewHandler(proxy.Settings{
		Backend:           p.address,
		GRPC:              c.Backend.GRPC,
		Gate:              p.gate,
		Breaker:           p.breaker,
		Limits:            c.Limits,
		Timeouts:          c.Timeouts,
		Hold:              c.Hold,
		ConnectTimeout:    c.Backend.ConnectTimeout.Std(),
		IdleConnections:   c.Backend.IdleConnections.Max,
		IdleTimeout:       c.Backend.IdleConnections.Timeout.Std(),
		ClientIdleTimeout: c.Listen.IdleTimeout.Std(),
		Denied:            p.denied(),
		ReadyPaths:        p.readyPath,
		LivePath:          func(path string) bool { return path == "/metrics" || p.server.LivePath(path) },
		Lost:              p.keeper.Lost,
		Suspect:           p.watch.Look,
		ServerTiming:      c.Telemetry.ServerTiming,
		Logger:            p.logger,
	})
	p.data = p.handler.Server()
}

// wirePorts makes what Kubernetes and people look at.
func (p *pilot) wirePorts() {
	p.health = &http.Server{
		Handler:           health.NewEndpoints(health.EndpointSettings{Machine: p.machine, Started: p.listening.Load}),
		Protocols:         plainProtocols(),
		ReadHeaderTimeout: slowClient,
		ErrorLog:          slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug),
	}
	token, err := status.LoadToken(p.config.Listen.AdminTokenFile.Value)
	if err != nil {
		p.logger.Warn("there is no admin token, so nobody may act at the admin port", "error", err)
	}
	p.admin = &http.Server{
		Handler: status.NewAdmin(status.Settings{
			Health:  p.machine.Snapshot,
			Gate:    func() any { return p.gate.Snapshot() },
			Circuit: func() any { return p.breaker.Snapshot() },
			Warmup:  func() any { return p.runner.Report() },
			Version: version(),
			Config:  p.effective,
			Token:   token,
			Warm:    func(string) error { return p.keeper.Rewarm("asked for by the operator") },
			Drain:   func() { _ = p.machine.Move("", health.Draining, "asked for by the operator") },
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

// effective is the configuration in force as it is shown, without secrets.
func (p *pilot) effective() any {
	shown, err := config.JSON(p.present())
	if err != nil {
		return err.Error() // not possible: what was loaded can be printed
	}

	return shown
}

// present is the configuration in force.
func (p *pilot) present() *config.Config { return p.latest.Load() }

// close gives back what a pilot holds outside its actors.
func (p *pilot) close() {
	if p.handler != nil {
		p.handler.Close()
	}
	if p.scratch != "" {
		_ = os.RemoveAll(p.scratch)
	}
}

// embed makes the backend a worker of our own, behind a socket that only this user may open.
func (p *pilot) embed() error {
	scratch, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		return fmt.Errorf("make a folder for the worker's socket: %w", err)
	}
	p.scratch = scratch
	p.address = units.Address{Network: "unix", Host: filepath.Join(scratch, "worker.sock")}
	onnx := p.config.Backend.ONNX
	arguments := []string{"onnx", "--parent-pipe", "--listen", "unix:" + p.address.Host, "--provider", onnx.Provider.String()}
	if onnx.Threads.Set {
		arguments = append(arguments, fmt.Sprintf("--threads=%d", onnx.Threads.Value))
	}
	if onnx.AllowCPU {
		arguments = append(arguments, "--allow-cpu")
	}
	for key, value := range onnx.Options {
		arguments = append(arguments, "--option", key+"="+value)
	}
	for _, model := range onnx.Models {
		arguments = append(arguments, "--model", model.Name+"="+model.Path)
	}
	p.worker = &worker{arguments: arguments, logger: p.logger}

	return nil
}

func (p *pilot) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, p.address.Network, p.address.Host)
}

// readyPath answers the backend's own ready paths truthfully on the data port.
func (p *pilot) readyPath(path string) (answer func() bool, ok bool) {
	model, ok := p.server.ReadyPath(path)

	return func() bool {
		if ready, known := p.machine.ModelReady(model); known {
			return ready
		}

		return p.machine.Ready()
	}, ok
}

// denied returns what says which paths are not for callers of the data port. What Pilotlight asks the backend itself does not come that way.
func (p *pilot) denied() func(path string) bool {
	if deny := p.config.Listen.Deny; deny != nil {
		return proxy.DenyPaths(deny)
	}

	return p.server.ControlPath
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

	return p.runner.Synthetic(ctx)
}

// circuitMoved tells the keeper what the breaker decided.
func (p *pilot) circuitMoved(from, to circuit.State, reason string) {
	switch {
	case to == circuit.Open:
		code := health.CodeBreakerOpen
		if strings.HasPrefix(reason, string(health.CodeStalled)) {
			code = health.CodeStalled
		}
		p.keeper.Opened(code, reason)
	case from == circuit.Open:
		p.keeper.Healed(reason)
	}
}

// gone is told that the backend has been lost. While the pod drains nobody starts it again, so those who wait had better try elsewhere.
func (p *pilot) gone() {
	p.breaker.Lost()
	if p.machine.Pod() == health.Draining {
		p.gate.Refuse(proxy.PodDraining)
	}
}

// warm runs the plan once, for the keeper.
func (p *pilot) warm(ctx context.Context, up func()) ([]health.ModelWarmth, error) {
	p.up.Store(&up)
	report, err := p.runner.Run(ctx)
	if err != nil {
		code := health.CodeWarmFailed
		if errors.Is(err, backend.ErrCredentialsRefused) {
			code = health.CodeCredentialsRefused
		}

		return nil, &health.ConditionError{Code: code, Err: err}
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

// judge turns what the runner found about a model into its state, by the policies.
func (p *pilot) judge(model warmup.ModelReport) (health.ModelWarmth, error) {
	warmth := health.ModelWarmth{
		ModelConfig: health.ModelConfig{Name: model.Name, Required: p.required(model.Name)},
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
		if model.Reasons[0] == warmup.ReasonNotConverged && warmth.Required && p.config.Warmup.NotConverged == warmup.StayUnready {
			return warmth, &health.ConditionError{Code: health.CodeNotConverged, Err: errors.New(model.Text)}
		}
	case warmup.Failed, warmup.Pending:
		warmth.State = health.Warming
	}

	return warmth, nil
}

// progress passes on the one event that somebody waits for.
func (p *pilot) progress(event warmup.Event) {
	if event.Kind == warmup.BackendUp {
		(*p.up.Load())()
	}
}

// required says whether the pod must be warm for a model: for all that are found, unless the configuration names them.
func (p *pilot) required(model string) bool {
	for _, configured := range p.config.Models {
		if configured.Name == model {
			return configured.Required
		}
	}

	return len(p.config.Models) == 0
}

func modelNames(models []health.ModelConfig) []string {
	names := make([]string, 0, len(models))
	for _, model := range models {
		names = append(names, model.Name)
	}

	return names
}

// checkPlan has the last word on a configuration whose values are all right by themselves.
func checkPlan(c *config.Config) error {
	_, err := warmup.NewPlan(c.Warmup.Steps)

	return err
}

// fixed are the keys that only a restart changes.
var fixed = []string{"backend", "models", "readiness", "limits", "warmup", "health", "circuit"}

// reconfigure puts in force what a reload may change; streams, held requests, breaker and warm models stay as they are.
func (p *pilot) reconfigure(next *config.Config) error {
	p.gate.Configure(next.Hold, int64(next.Hold.Memory.Value), next.Concurrency)
	p.handler.Configure(next.Timeouts, next.Hold, next.Telemetry.ServerTiming)
	p.latest.Store(next)

	return nil
}

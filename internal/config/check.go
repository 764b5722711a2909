package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// check reports values that have the right form and make no sense.
func (d *document) check(c *Config) {
	if c.Version != Version {
		d.reportf("version", "expected %d, got %d: this program reads no other version", Version, c.Version)
	}
	d.checkBackend(c.Backend, c.Warmup.Sample != "")
	d.checkListen(c)
	d.checkNumbers(c)
	d.checkTLS(c)
	models := make([]string, 0, len(c.Models))
	for _, model := range c.Models {
		models = append(models, model.Name)
	}
	d.checkNames("models", "name", models)
	d.checkSteps(c.Warmup.Steps)
	d.checkXDS(c)
	d.checkTelemetry(c.Telemetry)
}

func (d *document) checkTelemetry(t telemetry.Config) {
	if sample := t.Traces.Sample; !(sample >= 0 && sample <= 1) {
		d.reportf("telemetry.traces.sample", "expected a share from 0 to 1, got %v", sample)
	}
	for _, collector := range []struct {
		path    string
		address units.Address
	}{{"telemetry.traces.otlp", t.Traces.OTLP}, {"telemetry.metrics.otlp", t.Metrics.OTLP}} {
		switch address := collector.address; {
		case address.Network == "unix":
			d.reportf(collector.path, "expected http://host:port or https://host:port, got %s", address)
		case address.Base != "" && t.Traces.Protocol == telemetry.ProtocolGRPC:
			d.reportf(collector.path, "gRPC has no base path, expected http://host:port or https://host:port, got %s", address)
		}
	}
}

// checkNumbers holds every bound of a single number.
func (d *document) checkNumbers(c *Config) {
	d.atLeast(1, map[string]int{
		"limits.headers":                c.Limits.Headers,
		"limits.streams_per_connection": c.Limits.StreamsPerConnection,
		"concurrency.ramp.start":        c.Concurrency.Ramp.Start,
		"health.unhealthy_after":        c.Health.UnhealthyAfter,
		"circuit.min_requests":          c.Circuit.MinRequests,
		"circuit.half_open.requests":    c.Circuit.HalfOpen.Requests,
		"backend.workers":               c.Backend.Workers.Or(1),
		"backend.onnx.threads":          c.Backend.ONNX.Threads.Or(1),
	})
	d.atLeast(0, map[string]int{
		"limits.connections":           c.Limits.Connections,
		"hold.max_requests":            c.Hold.MaxRequests,
		"concurrency.limit":            c.Concurrency.Limit.Or(0),
		"backend.idle_connections.max": c.Backend.IdleConnections.Max,
	})
	d.notZero(map[string]units.Duration{
		"backend.connect_timeout":   c.Backend.ConnectTimeout,
		"warmup.timeout":            c.Warmup.Timeout,
		"health.interval":           c.Health.Interval,
		"health.timeout":            c.Health.Timeout.Or(1),
		"circuit.window":            c.Circuit.Window,
		"circuit.stalled_after":     c.Circuit.StalledAfter,
		"circuit.open_for":          c.Circuit.OpenFor,
		"circuit.half_open.timeout": c.Circuit.HalfOpen.Timeout,
		"drain.limit":               c.Drain.Limit.Or(1),
	})
	if rate := c.Circuit.FailureRate; rate <= 0 || rate > 1 {
		d.reportf("circuit.failure_rate", "expected a share above 0 and at most 1, got %v", rate)
	}
	for path, bound := range map[string]float64{
		"warmup.pressure.cpu": c.Warmup.Pressure.CPU, "warmup.pressure.memory": c.Warmup.Pressure.Memory, "warmup.pressure.suspend_cpu": c.Warmup.Pressure.SuspendCPU,
	} {
		if !(bound >= 0 && bound <= 1) {
			d.reportf(path, "expected a share from 0 to 1, got %v", bound)
		}
	}
	if shapes := c.Warmup.RecordShapes; shapes.Max < 1 || shapes.Max > warmup.MostRecorded {
		d.reportf("warmup.record_shapes.max", "expected a number from 1 to %d, got %d", warmup.MostRecorded, shapes.Max)
	}
	if share := c.Warmup.RecordShapes.MinShare; !(share >= 0 && share <= 1) {
		d.reportf("warmup.record_shapes.min_share", "expected a share from 0 to 1, got %v", share)
	}
	if psi := c.Warmup.Pressure.PSI; !(psi >= 0 && psi <= 100) {
		d.reportf("warmup.pressure.psi", "expected a share from 0 to 100 percent, got %v", psi)
	}
	if header := c.Hold.DeadlineHeader; header != "" && (!isHeaderName(header) || slices.Contains(hopHeaders(), strings.ToLower(header))) {
		d.reportf("hold.deadline_header", "expected the name of a header that reaches the backend, got %q", header)
	}
	const leastHead, mostHead = 1 << 10, 16 << 20
	if head := c.Limits.HeaderBytes; head < leastHead || head > mostHead {
		d.reportf("limits.header_bytes", "expected a size from %s to %s, got %s", units.Size(leastHead), units.Size(mostHead), head)
	}
}

// atLeast reports numbers below least, in the order of their paths.
func (d *document) atLeast(least int, numbers map[string]int) {
	for _, path := range slices.Sorted(maps.Keys(numbers)) {
		if n := numbers[path]; n < least {
			d.reportf(path, "expected a number of at least %d, got %d", least, n)
		}
	}
}

// notZero reports durations of which zero would mean nothing useful.
func (d *document) notZero(durations map[string]units.Duration) {
	for _, path := range slices.Sorted(maps.Keys(durations)) {
		if durations[path] == 0 {
			d.reportf(path, "expected a duration above 0, got 0")
		}
	}
}

// checkBackend checks the backend; sampled says that there is a sample request.
func (d *document) checkBackend(b BackendConfig, sampled bool) {
	switch {
	case b.Embedded() && !b.HTTP.IsZero():
		d.reportf("backend.onnx.models", "cannot be set together with backend.http: the backend is either embedded or another server")
	case b.Embedded() && !b.GRPC.IsZero():
		d.reportf("backend.onnx.models", "cannot be set together with backend.grpc: the backend is either embedded or another server")
	case !b.Embedded() && b.HTTP.IsZero() && b.GRPC.IsZero():
		d.reportf("backend", "no backend is named: set http (such as localhost:8000) or onnx.models; on the command line --backend or --onnx")
	case !b.Embedded() && b.HTTP.IsZero() && b.Type != TypeGRPC && (b.Type != TypeAuto || !sampled):
		d.reportf("backend.grpc", "is not enough by itself: servers of type %s are warmed over HTTP, so set backend.http too; type grpc is warmed by the gRPC call in warmup.sample", b.Type)
	}
	if path := b.ReadyPath; path.Set && !strings.HasPrefix(path.Value, "/") {
		d.reportf("backend.ready_path", "expected a path that begins with /, got %q", path.Value)
	}
	if b.GRPC.Base != "" {
		d.reportf("backend.grpc", "gRPC has no base path, expected host:port or unix:/path, got %s", b.GRPC)
	}
	names := make([]string, 0, len(b.ONNX.Models))
	for i, model := range b.ONNX.Models {
		names = append(names, model.Name)
		if model.Path == "" {
			d.reportf(fmt.Sprintf("backend.onnx.models[%d].path", i), "is missing, expected the path of an .onnx file")
		}
	}
	d.checkNames("backend.onnx.models", "name", names)
	for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
		d.checkHeader(name, b.Headers[name])
	}
}

// hopHeaders are set by the transport; a configured one would break a connection.
func hopHeaders() []string {
	return []string{"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
}

// isHeaderName says whether name is a token, as HTTP wants it.
func isHeaderName(name string) bool {
	return name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}

func (d *document) checkHeader(name string, h HeaderConfig) {
	path := join("backend.headers", name)
	switch {
	case !isHeaderName(name):
		d.reportf(path, "is no name of a header")
	case slices.Contains(hopHeaders(), strings.ToLower(name)):
		d.reportf(path, "cannot be set: the connection needs it")
	case (h.File == "") == (h.Value == ""):
		d.reportf(path, "expected exactly one of file and value")
	case strings.ContainsAny(h.Prefix+h.Value.Reveal(), "\r\n\x00"):
		d.reportf(path, "must not contain line breaks")
	}
}

func (d *document) checkListen(c *Config) {
	l, b := c.Listen, c.Backend
	if !l.Admin.IsZero() && !l.Admin.Loopback() {
		d.reportf("listen.admin", "expected a loopback address such as localhost:9002 or unix:/path, got %s: what it answers is not for other machines", l.Admin)
	}
	for i, denied := range l.Deny {
		// What is written in another way than the paths that it is compared with would deny nothing, in silence.
		if clean := path.Clean("/" + denied); clean != denied || strings.ContainsAny(denied, "%?#") {
			d.reportf(fmt.Sprintf("listen.deny[%d]", i), "expected a decoded path such as /v2/repository/*/load, with no slash at its end and no query, got %q", denied)
		}
	}
	ours := d.ourListens(c)
	for i, one := range ours {
		for _, other := range ours[:i] {
			if clash(one.listen, other.listen) {
				d.reportf(one.path, "%s is the address of %s already", one.listen, other.path)
			}
		}
		for path, address := range map[string]units.Address{"backend.http": b.HTTP, "backend.grpc": b.GRPC} {
			if loops(address, one.listen) {
				d.reportf(path, "%s is Pilotlight itself (%s): requests would go round in circles", address, one.path)
			}
		}
	}
}

// ourListen is where we listen, or Envoy beside us does because we tell it to.
type ourListen struct {
	path   string
	listen units.Listen
}

// ourListens lists them, and reports those that are missing.
func (d *document) ourListens(c *Config) []ourListen {
	all := []ourListen{{"listen.data", c.Listen.Data}, {"listen.health", c.Listen.Health}, {"listen.admin", c.Listen.Admin}}
	for i, extra := range c.Listen.Extra {
		all = append(all, ourListen{fmt.Sprintf("listen.extra[%d].address", i), extra.Address})
	}
	for _, one := range all {
		if one.listen.IsZero() {
			d.reportf(one.path, "is missing, expected :port, host:port, [v6]:port or unix:/path")
		}
	}
	if !c.XDS.Serve.IsZero() {
		all = append(all, ourListen{"xds.serve", c.XDS.Serve}, ourListen{"xds.envoy.listen", c.XDS.Envoy.Listen})
	}

	return slices.DeleteFunc(all, func(one ourListen) bool { return one.listen.IsZero() })
}

// clash says whether the second of two listeners must fail.
func clash(a, b units.Listen) bool {
	if a.Network != b.Network || a.Network == "unix" {
		return a == b
	}
	hostA, portA, _ := net.SplitHostPort(a.Host)
	hostB, portB, _ := net.SplitHostPort(b.Host)

	return portA == portB && portA != "0" && (hostA == hostB || unspecified(hostA) || unspecified(hostB) || (a.Loopback() && b.Loopback()))
}

// loops says whether an address certainly reaches our own listener. The pod's own address, which we do not know here, is caught by the proxy's loop marker.
func loops(address units.Address, listen units.Listen) bool {
	if address.Network != listen.Network || address.Network != "tcp" {
		return !address.IsZero() && address.Network == listen.Network && address.Host == listen.Host
	}
	host, port, _ := net.SplitHostPort(address.Host)
	ourHost, ourPort, _ := net.SplitHostPort(listen.Host)
	if port != ourPort {
		return false
	}
	local := units.Listen{Network: "tcp", Host: address.Host}.Loopback() || unspecified(host)

	return host == ourHost || (local && (unspecified(ourHost) || listen.Loopback()))
}

// unspecified says whether a host means every interface.
func unspecified(host string) bool {
	address, err := netip.ParseAddr(host)

	return host == "" || (err == nil && address.IsUnspecified())
}

// checkNames reports list items without a name and with the name of an earlier one.
func (d *document) checkNames(path, key string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d].%s", path, i, key)
		if name == "" {
			d.reportf(at, "is missing")
		} else if first := slices.Index(names, name); first < i {
			d.reportf(at, "%q is the name of %s[%d] already", name, path, first)
		}
	}
}

func (d *document) checkSteps(steps []warmup.StepConfig) {
	names := make([]string, 0, len(steps))
	for _, step := range steps {
		names = append(names, step.Name)
	}
	d.checkNames("warmup.steps", "name", names)
	for i, step := range steps {
		path := fmt.Sprintf("warmup.steps[%d]", i)
		if step.Kinds() != 1 {
			d.reportf(path, "expected exactly one of wait, infer, call, replay and prefetch")
		}
		if step.Retries != nil {
			d.atLeast(0, map[string]int{path + ".retries": *step.Retries})
		}
		for j, need := range step.Needs {
			d.checkNeed(fmt.Sprintf("%s.needs[%d]", path, j), need, step.Name, names)
		}
		if step.Infer != nil {
			d.checkInfer(path+".infer", *step.Infer)
		}
		if step.Prefetch != nil {
			if err := step.Prefetch.Check(); err != nil {
				d.reportf(path+".prefetch.paths", "%v", err)
			}
		}
	}
}

func (d *document) checkNeed(path, need, step string, names []string) {
	switch {
	case need == step:
		d.reportf(path, "step %q needs itself", step)
	case slices.Contains(names, need):
	case units.Nearest(need, names) != "":
		d.reportf(path, "there is no step %q, did you mean %s?", need, units.Nearest(need, names))
	default:
		d.reportf(path, "there is no step %q", need)
	}
}

func (d *document) checkInfer(path string, infer warmup.InferConfig) {
	d.atLeast(0, map[string]int{path + ".max_requests": infer.MaxRequests})
	grid := infer.Grid
	lists := map[string][]int{"batch": grid.Batch, "concurrency": grid.Concurrency, "input_tokens": grid.InputTokens, "output_tokens": grid.OutputTokens}
	for name, sizes := range grid.Dims {
		lists["dims."+name] = sizes
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		for i, n := range lists[name] {
			d.atLeast(1, map[string]int{fmt.Sprintf("%s.grid.%s[%d]", path, name, i): n})
		}
	}
	for i, temperature := range grid.Temperature {
		if temperature < 0 {
			d.reportf(fmt.Sprintf("%s.grid.temperature[%d]", path, i), "expected a number of at least 0, got %v", temperature)
		}
	}
	if infer.Expect.Tolerance < 0 {
		d.reportf(path+".expect.tolerance", "expected a number of at least 0, got %v", infer.Expect.Tolerance)
	}
	if status := infer.Expect.Status; status != 0 && (status < 100 || status > 599) {
		d.reportf(path+".expect.status", "expected an HTTP status from 100 to 599, got %d", status)
	}
}

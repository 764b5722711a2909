package telemetry

import "slices"

//go:generate go test . -run ^TestDocsAreFresh$ -update

// Metric is one row of the catalogue.
type Metric struct {
	// Name is OpenTelemetry's. Prometheus has underscores for dots, and the unit and "total" behind the name.
	Name string
	Kind Kind
	// Unit is UCUM's. What stands in braces counts things, and is no part of the name in Prometheus.
	Unit string
	// Labels are the names of the attributes, in the order in which [Observer.Set] takes their values.
	Labels []string
	// Meaning is one sentence or two for the person who looks the metric up, and the help text of a scrape.
	Meaning string
}

// ID names a row of the catalogue.
type ID int

// The metrics there are, in the order of the page.
const (
	HTTPDuration ID = iota
	RPCDuration
	FirstByte
	HoldDuration
	Exchanges
	Refusals
	BodyBytes

	InFlight
	HoldRequests
	HoldOldest
	HoldMemory
	HoldMemoryLimit
	HoldWaits
	GateMode
	GatePermits
	GatePermitted
	Connections

	PodState
	PodReady
	ModelState
	ModelReady
	ConditionActive
	BreakerState
	BreakerMoves
	BreakerOldest

	WarmupRuns
	WarmupRunning
	WarmupRemaining
	WarmupDuration
	WarmupGPUTime
	StepDuration
	PrefetchBytes
	PrefetchResident
	ShapeState
	ShapeRequests
	ShapeLatency
	ShapeColdEvents
	ShapeColdRate
	SyntheticRequests
	ColdHits

	XDSStreams
	XDSNACKs

	ConfigReloads
	SpansSent
	SpansDropped
	MetricPushFailures
	BackendScrapeFailures
	BuildInfo
)

// shape is what tells shapes apart.
var shape = []string{"model", "step", "shape", "concurrency"}

// catalogue is the one table of metrics: the page in docs and the instruments are made from it, and a metric that is not in it never leaves.
var catalogue = [...]Metric{
	HTTPDuration: {
		"http.server.request.duration", Histogram, "s",
		[]string{"http.request.method", "http.response.status_code", "network.protocol.version", "url.scheme", "error.type"},
		"From the arrival of a user's HTTP request to the end of its answer, hold included. Neither gRPC calls nor probes nor what Pilotlight asks by itself are in it. A method that nobody has registered is _OTHER; error.type is the reason of a refusal or break, or the status from 500 on.",
	},
	RPCDuration: {
		"rpc.server.call.duration", Histogram, "s",
		[]string{"rpc.system.name", "rpc.response.status_code", "error.type"},
		"From the arrival of a user's gRPC call to its end, hold included.",
	},
	FirstByte: {
		"pilotlight.time_to_first_byte", Histogram, "s",
		[]string{"protocol"},
		"From the arrival of a user's request to the first byte of the backend's answer after its head, hold included. For a server that streams tokens that is the time to the first token.",
	},
	HoldDuration: {
		"pilotlight.hold.duration", Histogram, "s",
		[]string{"outcome"},
		"How long requests were held that were held at all, by how it ended.",
	},
	Exchanges: {
		"pilotlight.exchanges", Counter, "{exchange}",
		[]string{"verdict", "reason"},
		"Exchanges of users with the backend, by what they say about the backend. Reason stream_broken is an answer that the backend broke off.",
	},
	Refusals: {
		"pilotlight.refusals", Counter, "{request}",
		[]string{"reason"},
		"Requests that Pilotlight answered instead of the backend, by the reason that the answer names.",
	},
	BodyBytes: {
		"pilotlight.body.io", Counter, "By",
		[]string{"direction"},
		"Bytes of the bodies of users' requests (received) and of their answers (sent).",
	},

	InFlight:        {"pilotlight.in_flight", Gauge, "{request}", nil, "Users' requests that are with the backend now."},
	HoldRequests:    {"pilotlight.hold.requests", Gauge, "{request}", nil, "Requests that are held now."},
	HoldOldest:      {"pilotlight.hold.oldest", Gauge, "s", nil, "For how long the oldest of the held requests has been held."},
	HoldMemory:      {"pilotlight.hold.memory", Gauge, "By", nil, "Memory that is reserved for the bodies of held requests."},
	HoldMemoryLimit: {"pilotlight.hold.memory.limit", Gauge, "By", nil, "What may be reserved for them."},
	HoldWaits:       {"pilotlight.hold.waits", Counter, "{request}", []string{"outcome"}, "How waits at the gate ended. Requests that came while it was passing did not wait."},
	GateMode:        {"pilotlight.gate.mode", Gauge, "", []string{"mode"}, "1 for the position of the gate, 0 for the others."},
	GatePermits:     {"pilotlight.gate.permits", Gauge, "{request}", nil, "How many requests may be with the backend at once while the gate is ramping."},
	GatePermitted:   {"pilotlight.gate.permitted", Gauge, "{request}", nil, "How many of them are."},
	Connections:     {"pilotlight.connections", Gauge, "{connection}", []string{"port"}, "Connections of clients to a port of Pilotlight, upgraded ones left out."},

	PodState:        {"pilotlight.pod.state", Gauge, "", []string{"state"}, "1 for the state of the pod, 0 for the others."},
	PodReady:        {"pilotlight.pod.ready", Gauge, "", nil, "1 while /readyz says 200."},
	ModelState:      {"pilotlight.model.state", Gauge, "", []string{"model", "state"}, "1 for the state of a model; its other states have no series."},
	ModelReady:      {"pilotlight.model.ready", Gauge, "", []string{"model"}, "1 while the model is ready, and the backend as a whole does not stand against it."},
	ConditionActive: {"pilotlight.condition", Gauge, "", []string{"code", "severity", "model"}, "1 for each condition that holds; without a model, for the backend as a whole."},
	BreakerState:    {"pilotlight.breaker.state", Gauge, "", []string{"state"}, "1 for the state of the circuit breaker, 0 for the others."},
	BreakerMoves:    {"pilotlight.breaker.moves", Counter, "{move}", []string{"from", "to"}, "Moves of the circuit breaker."},
	BreakerOldest:   {"pilotlight.breaker.oldest_in_flight", Gauge, "s", nil, "Age of the oldest exchange that is under way."},

	WarmupRuns:      {"pilotlight.warmup.runs", Counter, "{run}", nil, "Runs of the plan that have begun."},
	WarmupRunning:   {"pilotlight.warmup.running", Gauge, "", nil, "1 while a run is under way."},
	WarmupRemaining: {"pilotlight.warmup.remaining", Gauge, "s", nil, "How long the rest of the run will take, by what was measured; 0 when nobody can say."},
	WarmupDuration:  {"pilotlight.warmup.duration", Gauge, "s", nil, "How long the present run has taken so far, or the last one took."},
	WarmupGPUTime:   {"pilotlight.warmup.gpu_time", Counter, "s", nil, "Time in which at least one synthetic request was computing, all runs and checks together."},
	StepDuration:    {"pilotlight.warmup.step.duration", Gauge, "s", []string{"step", "kind", "state"}, "How long a step of the present or last run has taken, with the state that it is in."},
	PrefetchBytes: {
		"pilotlight.warmup.prefetch", Gauge, "By",
		[]string{"step", "part"},
		"Bytes of the files of a prefetch in the present or last run: all of them (all), those that were in the page cache already (cached), and those brought there (read).",
	},
	PrefetchResident: {"pilotlight.warmup.prefetch.resident", Gauge, "1", []string{"step"}, "The share of them that was in the page cache when the prefetch ended; no series where the kernel does not say."},
	ShapeState:       {"pilotlight.warmup.shape.state", Gauge, "", append(slices.Clip(shape), "state"), "1 for how far a shape is; its other states have no series."},
	ShapeRequests:    {"pilotlight.warmup.shape.requests", Gauge, "{request}", shape, "Synthetic requests of a shape in the present or last run, at its own concurrency."},
	ShapeLatency:     {"pilotlight.warmup.shape.latency", Gauge, "s", append(slices.Clip(shape), "statistic"), "What those requests took: the first, the slowest, the level (median of the last ten) and the p95 of what is held to be warm."},
	ShapeColdEvents:  {"pilotlight.warmup.shape.cold_events", Gauge, "{request}", shape, "How many of them stood out above the level and its noise."},
	ShapeColdRate:    {"pilotlight.warmup.shape.cold_rate.upper", Gauge, "1", shape, "The 95 % upper bound on the share of further requests that are still cold, given those seen."},
	SyntheticRequests: {
		"pilotlight.synthetic.requests", Counter, "{request}",
		[]string{"purpose", "result"},
		"Inferences that Pilotlight asked for by itself. Purpose is warmup or check, where a check of all required models counts once; result is answered, busy or failed. None of them is in a metric of users' requests.",
	},
	ColdHits: {
		"pilotlight.cold_hits", Counter, "{request}", nil,
		"Users' requests that met a shape that was never warmed, by a first byte of more than 4 times what the warm shapes of the model let expect. The status page names the shapes and what would warm them.",
	},

	XDSStreams: {"pilotlight.xds.streams", Gauge, "{stream}", nil, "Streams of Envoy and gRPC clients that are open at xds.serve. There is no such series without it."},
	XDSNACKs:   {"pilotlight.xds.nacks", Counter, "{nack}", []string{"resource"}, "Resources that such a client has refused, by kind: cluster, endpoint, listener or route. It goes on with those it had; the log has its reason."},

	ConfigReloads:         {"pilotlight.config.reloads", Counter, "{reload}", []string{"result"}, "Reloads of the configuration: applied, refused or failed."},
	SpansSent:             {"pilotlight.spans.sent", Counter, "{span}", nil, "Spans that a collector has taken."},
	SpansDropped:          {"pilotlight.spans.dropped", Counter, "{span}", []string{"reason"}, "Spans that were lost: queue_full, since the collector takes them too slowly, or export_failed."},
	MetricPushFailures:    {"pilotlight.metrics.push.failures", Counter, "{push}", nil, "Pushes of metrics that no collector has taken."},
	BackendScrapeFailures: {"pilotlight.backend_scrape.failures", Counter, "{scrape}", nil, "Scrapes that had to do without the backend's own metrics, since those did not come, were too large or could not be read."},
	BuildInfo:             {"pilotlight.build.info", Gauge, "", []string{"version"}, "1, with the version of the program."},
}

// IDs lists every row's name, in order.
func IDs() []ID {
	ids := make([]ID, len(catalogue))
	for i := range ids {
		ids[i] = ID(i)
	}

	return ids
}

// Of returns the row of the catalogue.
func Of(id ID) Metric { return catalogue[id] }

// find returns the row of an instrument's name.
func find(name string) (Metric, bool) {
	for _, row := range catalogue {
		if row.Name == name {
			return row, true
		}
	}

	return Metric{}, false
}

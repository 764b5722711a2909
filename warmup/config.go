package warmup

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

// Config is the warmup block of the configuration.
type Config struct {
	// Trigger is "startup" to warm a backend as soon as it answers, "first-request" to leave it cold until a user asks: the pod is then ready, and the request is held;
	// "calm" to send it the first inference once the machine has room for that, and to pause while there is none, by pressure.
	Trigger Trigger `yaml:"trigger"`
	// Timeout limits one run of the plan; then it is retried with back-off. It is never terminal.
	Timeout units.Duration `yaml:"timeout"`
	// OnFailure says whether a backend whose warm-up failed serves all the same.
	OnFailure Policy `yaml:"on_failure"`
	// NotConverged says whether a backend whose latency has not converged serves all the same, as degraded.
	NotConverged Policy `yaml:"not_converged"`
	// GPUTime caps the time in which at least one synthetic request of one warm-up is computing, all tries of it and its background included. Whatever is left then stays unwarmed, by name,
	// under the condition gpu_time_spent; the policy not_converged decides whether it serves. A request that is under way is not cut off. 0: no cap.
	GPUTime units.Duration `yaml:"gpu_time"`
	// Record is the file that says what is warm, for a restart of Pilotlight alone: beside the same process of the backend one request for each shape confirms it, or with
	// several backend.workers as many as reach each of them. "auto" is a file of mode 0600 in the runtime directory, "" keeps none. It outlives a container only on a volume, such as an emptyDir.
	Record units.Auto[string] `yaml:"record"`
	// Sample is a file with one request, for servers for which none may be made up: a line with method and path, lines with headers, an empty line, the body.
	// A gRPC call has /package.Service/Method in its first line, and JSON or @file as its message. Whoever names it vouches that sending it again and again has no
	// side effects.
	Sample string `yaml:"sample"`
	// Descriptors is a file that describes the messages of a sample that is a gRPC call, as protoc --include_imports --descriptor_set_out writes it. Empty: the server
	// is asked by reflection.
	Descriptors string `yaml:"descriptors"`
	// RecordShapes remembers the shapes that users send. The next start warms the frequent ones beyond what is derived, wherever no grid names shapes.
	RecordShapes RecordShapesConfig `yaml:"record_shapes"`
	// KeepWarm is the idle time after which one synthetic request is sent, for servers that are slow again when nobody asks them. It stops while users do. 0: off.
	KeepWarm units.Duration `yaml:"keep_warm"`
	// Pressure says what is too much for the trigger "calm", and for shapes that are warmed in the background.
	Pressure calm.Config `yaml:"pressure"`
	// Steps is the plan. Empty: derived from the backend's own metadata.
	Steps []StepConfig `yaml:"steps"`
}

// StepConfig is one step of the plan. Exactly one of Wait, Infer, Call, Replay and Prefetch is set.
type StepConfig struct {
	// Name identifies the step in Needs, reports and logs.
	Name string `yaml:"name"`
	// Needs lists the steps that must have succeeded before this one starts.
	Needs []string `yaml:"needs"`
	// Timeout limits one try of the step; 0 means 5m.
	Timeout units.Duration `yaml:"timeout"`
	// Retries is how many more tries a failed step gets within one run. Unset: 3.
	Retries *int `yaml:"retries"`
	// BeforeBackend steps run at once, before there is a backend: /startupz says 200 once each of them has ended, or its timeout has passed, which limits all its
	// tries together here. Only kinds that need no backend can be, and they need only others of that sort.
	BeforeBackend bool `yaml:"before_backend"`
	// Optional steps may fail without failing the plan: the pod is then degraded.
	Optional bool `yaml:"optional"`
	// Wait waits until the backend says that it has loaded what is asked for.
	Wait *WaitConfig `yaml:"wait"`
	// Infer sends synthetic requests until their latency has converged.
	Infer *InferConfig `yaml:"infer"`
	// Call makes one HTTP call to the backend.
	Call *CallConfig `yaml:"call"`
	// Replay sends requests from files.
	Replay *ReplayConfig `yaml:"replay"`
	// Prefetch reads files into the page cache. It needs no backend.
	Prefetch *PrefetchConfig `yaml:"prefetch"`
}

// Kind is what the step is told to do, where it is told one thing.
func (s StepConfig) Kind() Kind {
	switch {
	case s.Wait != nil:
		return KindWait
	case s.Call != nil:
		return KindCall
	case s.Replay != nil:
		return KindReplay
	case s.Prefetch != nil:
		return KindPrefetch
	default:
		return KindInfer
	}
}

// Kinds counts the things that the step is told to do: it should be one.
func (s StepConfig) Kinds() int {
	count := 0
	for _, set := range []bool{s.Wait != nil, s.Infer != nil, s.Call != nil, s.Replay != nil, s.Prefetch != nil} {
		if set {
			count++
		}
	}

	return count
}

// WaitConfig is a step that waits for the backend.
type WaitConfig struct {
	// Order is "status" to trust the backend's model-level readiness, "infer" for a server that is ready only after its first inference.
	Order Order `yaml:"order"`
}

// InferConfig is a step that sends synthetic requests through the backend's own API.
type InferConfig struct {
	// Model is the model to warm. Empty: every model of the plan's run.
	Model string `yaml:"model"`
	// Grid spans the shapes to warm.
	Grid GridConfig `yaml:"grid"`
	// Until is "converged", or a number of requests per shape.
	Until Until `yaml:"until"`
	// MaxRequests bounds the requests per shape and run.
	MaxRequests int `yaml:"max_requests"`
	// Expect says what a good answer looks like.
	Expect ExpectConfig `yaml:"expect"`
}

// ExpectConfig says what a good answer to a synthetic request looks like.
type ExpectConfig struct {
	// Status is the expected HTTP status; 0 means 200, or any 2xx for servers of type http.
	Status int `yaml:"status"`
	// Finite refuses NaN and infinities in the outputs. Unset: true.
	Finite *bool `yaml:"finite"`
	// JSON maps paths in the answer, such as outputs.0.datatype, to the values that must stand there. Of a stream the last event counts.
	JSON map[string]string `yaml:"json"`
	// EqualsFile is an answer to compare with: every key in it must be in the answer, numbers within the tolerance. Requests of the step are then the same each time.
	EqualsFile string `yaml:"equals_file"`
	// EqualsReference is the path of an ONNX model whose answers to the same requests must be in the backend's, numbers within the tolerance: warm and correct. A
	// worker of our own computes them on the CPU while the plan runs. Only for server types oip and triton, whose answers are tensors.
	EqualsReference string `yaml:"equals_reference"`
	// Tolerance is relative to the number expected, and absolute for those below 1.
	Tolerance float64 `yaml:"tolerance"`
}

// DefaultConfig returns the settings used when the user sets none.
func DefaultConfig() Config {
	return Config{Timeout: units.Duration(10 * time.Minute), OnFailure: StayUnready, NotConverged: Serve, Pressure: calm.DefaultConfig(), RecordShapes: RecordShapesConfig{Max: 256, MinShare: 0.001}}
}

// DefaultStep returns a step of which nothing is said yet.
func DefaultStep() StepConfig {
	retries := DefaultRetries

	return StepConfig{Timeout: units.Duration(DefaultStepTimeout), Retries: &retries}
}

// DefaultInfer returns what an infer step does of which nothing is said yet.
func DefaultInfer() InferConfig {
	finite := true

	return InferConfig{MaxRequests: DefaultMaxRequests, Expect: ExpectConfig{Finite: &finite, Tolerance: DefaultTolerance}}
}

// DefaultTolerance is how far a number of an answer may be from the one that was expected.
const DefaultTolerance = 0.001

// DefaultMaxRequests bounds the synthetic requests of one shape in one run when the user sets no bound.
const DefaultMaxRequests = 200

package warmup

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Config is the warmup block of the configuration.
type Config struct {
	// Trigger is "startup" to warm a backend as soon as it answers, "first-request" to leave it cold until a user asks: the pod is then ready, and the request is held.
	Trigger Trigger `yaml:"trigger"`
	// Timeout limits one run of the plan; then it is retried with back-off. It is never terminal.
	Timeout units.Duration `yaml:"timeout"`
	// OnFailure says whether a backend whose warm-up failed serves all the same.
	OnFailure Policy `yaml:"on_failure"`
	// NotConverged says whether a backend whose latency has not converged serves all the same, as degraded.
	NotConverged Policy `yaml:"not_converged"`
	// Sample is a file with one request, for servers for which none may be made up: a line with method and path, lines with headers, an empty line, the body.
	// A gRPC call has /package.Service/Method in its first line, and JSON or @file as its message. Whoever names it vouches that sending it again and again has no
	// side effects.
	Sample string `yaml:"sample"`
	// Descriptors is a file that describes the messages of a sample that is a gRPC call, as protoc --include_imports --descriptor_set_out writes it. Empty: the server
	// is asked by reflection.
	Descriptors string `yaml:"descriptors"`
	// KeepWarm is the idle time after which one synthetic request is sent, for servers that are slow again when nobody asks them. It stops while users do. 0: off.
	KeepWarm units.Duration `yaml:"keep_warm"`
	// Steps is the plan. Empty: derived from the backend's own metadata.
	Steps []StepConfig `yaml:"steps"`
}

// StepConfig is one step of the plan. Exactly one of Wait, Infer, Call and Replay is set.
type StepConfig struct {
	// Name identifies the step in Needs, reports and logs.
	Name string `yaml:"name"`
	// Needs lists the steps that must have succeeded before this one starts.
	Needs []string `yaml:"needs"`
	// Timeout limits one try of the step; 0 means 5m.
	Timeout units.Duration `yaml:"timeout"`
	// Retries is how many more tries a failed step gets within one run. Unset: 3.
	Retries *int `yaml:"retries"`
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
}

// Kinds counts the things that the step is told to do: it should be one.
func (s StepConfig) Kinds() int {
	count := 0
	for _, set := range []bool{s.Wait != nil, s.Infer != nil, s.Call != nil, s.Replay != nil} {
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
	return Config{Timeout: units.Duration(10 * time.Minute), OnFailure: StayUnready, NotConverged: Serve}
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

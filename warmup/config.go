package warmup

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Config is the warmup block of the configuration.
type Config struct {
	// Timeout limits one run of the plan; then it is retried with back-off. It is never terminal.
	Timeout units.Duration `yaml:"timeout"`
	// OnFailure says whether a backend whose warm-up failed serves all the same.
	OnFailure Policy `yaml:"on_failure"`
	// NotConverged says whether a backend whose latency has not converged serves all the same, as degraded.
	NotConverged Policy `yaml:"not_converged"`
	// Steps is the plan. Empty: derived from the backend's own metadata.
	Steps []StepConfig `yaml:"steps"`
}

// StepConfig is one step of the plan. Exactly one of Wait and Infer is set.
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

// GridConfig spans shapes: every combination of its lists.
type GridConfig struct {
	// Batch lists batch sizes. Empty: derived from the model's metadata.
	Batch []int `yaml:"batch"`
	// Concurrency lists how many requests are in flight at once. Empty: 1 and the number of workers.
	Concurrency []int `yaml:"concurrency"`
}

// ExpectConfig says what a good answer to a synthetic request looks like.
type ExpectConfig struct {
	// Status is the expected HTTP status; 0 means 200.
	Status int `yaml:"status"`
	// Finite refuses NaN and infinities in the outputs. Unset: true.
	Finite *bool `yaml:"finite"`
}

// DefaultConfig returns the settings used when the user sets none.
func DefaultConfig() Config {
	return Config{Timeout: units.Duration(10 * time.Minute), OnFailure: StayUnready, NotConverged: Serve}
}

// DefaultMaxRequests bounds the synthetic requests of one shape in one run when the user sets no bound.
const DefaultMaxRequests = 200

// Policy says what to do with a backend that is not as warm as was asked for.
type Policy int

const (
	// StayUnready withholds readiness and tries again.
	StayUnready Policy = iota
	// Serve lets traffic in, as degraded, with the reason.
	Serve
)

var policyNames = units.Names[Policy]{
	StayUnready: "stay-unready",
	Serve:       "serve",
}

// PolicyValues lists every value, in order.
func PolicyValues() []Policy { return policyNames.Values() }

// String returns the word used in the configuration.
func (p Policy) String() string { return policyNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Policy) UnmarshalText(text []byte) error { return policyNames.Parse("warmup policy", text, p) }

// Order says which comes first: the backend's word that it is ready, or an inference.
type Order int

const (
	// OrderStatus waits for the backend's model-level readiness before the first inference.
	OrderStatus Order = iota
	// OrderInfer sends the first inference although the backend does not say yet that it is ready.
	OrderInfer
)

var orderNames = units.Names[Order]{
	OrderStatus: "status",
	OrderInfer:  "infer",
}

// OrderValues lists every value, in order.
func OrderValues() []Order { return orderNames.Values() }

// String returns the word used in the configuration.
func (o Order) String() string { return orderNames.Of(o) }

// MarshalText implements [encoding.TextMarshaler].
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *Order) UnmarshalText(text []byte) error { return orderNames.Parse("wait order", text, o) }

// Until is when an infer step stops: 0 means once converged, n > 0 means after n requests per shape.
type Until int

// String returns the word used in the configuration.
func (u Until) String() string {
	if u == 0 {
		return "converged"
	}

	return strconv.Itoa(int(u))
}

// MarshalText implements [encoding.TextMarshaler].
func (u Until) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *Until) UnmarshalText(text []byte) error {
	if string(text) == "converged" {
		*u = 0

		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("parse until %q: expected converged or a number of requests, at least 1", text)
	}
	*u = Until(n)

	return nil
}

package backend

import "context"

// Dialect is how one server type is spoken to. All methods are safe for concurrent use; errors of those that call the server are *Error.
type Dialect interface {
	Paths
	// Name is the server type as it is written in the configuration.
	Name() string
	// Up returns nil when the server answers at all, whatever it answers.
	Up(ctx context.Context) error
	// Ready returns nil when the server says that it has loaded the model; model "" asks for the server as a whole.
	Ready(ctx context.Context, model string) error
	// Models lists the base models that the server has loaded. ErrNotOffered: this server cannot say.
	Models(ctx context.Context) ([]string, error)
	// Describe tells what the model takes.
	Describe(ctx context.Context, model string) (Model, error)
	// Request makes an inference request of that shape; different seeds make different values. ErrNoRequest: it must not be made up.
	Request(model Model, shape Shape, seed uint64) (Request, error)
	// Check judges the answer to an inference; act is what errors call it.
	Check(act string, answer Answer, expect Expect) error
}

// Paths says what the paths of a server's API are for. It gets them decoded; ControlPath gets every other reading of a path as well.
type Paths interface {
	// ReadyPath says whether a path asks whether the server, or the named model, is ready.
	ReadyPath(path string) (model string, ok bool)
	// LivePath says whether a path asks whether the server lives.
	LivePath(path string) bool
	// ControlPath says whether a path changes what the server serves.
	ControlPath(path string) bool
}

// Identifier is a Dialect whose server says which version of a model it has loaded. Two different answers mean that the model was loaded anew.
type Identifier interface {
	// Identity returns what tells one load of the model from the next; empty when the server does not say.
	Identity(ctx context.Context, model string) (string, error)
}

// Unloader is a Dialect whose server unloads models by itself when nobody asks for them, and loads them again when somebody does.
type Unloader interface {
	// Loaded says whether the model is in memory, without loading it and without keeping it there.
	Loaded(ctx context.Context, model string) (bool, error)
}

// Sleeper is a Dialect whose server goes on listing its models while it sleeps, so that a list alone does not make them ready.
type Sleeper interface {
	// Awake returns nil unless the server says that it sleeps.
	Awake(ctx context.Context) error
}

// Crew is a Dialect whose server says how many processes stand behind its port.
type Crew interface {
	// Workers returns that number; 0 when the server does not say.
	Workers(ctx context.Context, model string) (int, error)
}

// Comparer is a Dialect whose answers are tensors, so that those of a reference can be held against them.
type Comparer interface {
	// Compare says where an answer differs from the one that the reference, an Open Inference Protocol server, gave to the same request.
	Compare(act string, answer, reference Answer, tolerance float64) error
}

// Model is what a server says of a model.
type Model struct {
	Name    string
	Inputs  []Tensor
	Outputs []Tensor
	// Takes lists the ways in which requests can differ.
	Takes []Axis
	// Batched is true when the first dimension of every input is the batch.
	Batched bool
	// MaxBatch is the largest batch the server takes; 0 when it does not say.
	MaxBatch int
	// Preferred are the batch sizes the server likes to form.
	Preferred []int
	// MaxTokens bounds the tokens of the prompt and the answer together, MaxInput those of the prompt alone; 0 when the server does not say.
	MaxTokens, MaxInput int
	// MaxTogether bounds the tokens of all requests that are under way at once, prompts and answers; 0 when there is no such bound, or none is told.
	MaxTogether int
	// Vocabulary is the number of tokens that the model knows; 0 when the server does not say.
	Vocabulary int
	// Endpoints are the APIs by which the model can be asked. The first is promised; the model may know nothing of the others.
	Endpoints []Endpoint
	// Adapters are those that the server names.
	Adapters []string
	// Hint is what the Dialect itself wants to know again when it makes a request.
	Hint string
	// NoRequest says why no request may be made up for this model; empty when one may.
	NoRequest string
}

// Tensor is one input or output. Dimensions of -1 may have any size.
type Tensor struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// Options is what the configuration says about how to speak to a server, besides where it is.
type Options struct {
	// Sample is the request that warms servers for which none may be made up; nil: there is none.
	Sample *Sample
	// Schema describes the messages of a sample that is a gRPC call; nil: the server is asked.
	Schema *Schema
	// ReadyPath is the path by which a server of type http says that it is ready; empty: found out.
	ReadyPath string
}

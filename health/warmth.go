package health

// ModelWarmth is what one run of the plan found about one model.
type ModelWarmth struct {
	ModelConfig

	// State is [Ready], [Degraded], or [Warming] for an optional model that could not be warmed.
	State State
	// Code and Text say what is to be known about it, if anything: why State is not Ready, or that nothing warmed it.
	Code Code
	Text string
}

// ConditionError is an error that is reported under a condition code of its own.
type ConditionError struct {
	Code Code
	Err  error
}

// Error implements error.
func (e *ConditionError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ConditionError) Unwrap() error { return e.Err }

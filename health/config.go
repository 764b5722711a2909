package health

import (
	"fmt"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Config is the health block of the configuration.
type Config struct {
	// Interval is the time between two checks of a backend that says nothing by itself.
	Interval units.Duration `yaml:"interval"`
	// Timeout limits one check. "auto" is 2s for an endpoint and max(5s, 10 times the warm level) for a synthetic request; a value set here limits both.
	Timeout units.Auto[units.Duration] `yaml:"timeout"`
	// UnhealthyAfter is how many checks must fail in a row, with no user's work proving otherwise.
	UnhealthyAfter int `yaml:"unhealthy_after"`
	// ActiveCheck is what a check consists of.
	ActiveCheck ActiveCheck `yaml:"active_check"`
}

// ModelConfig is one entry of the models list: what the pod must be warm for.
type ModelConfig struct {
	// Name is the model's name as the backend knows it.
	Name string `yaml:"name"`
	// Required models gate the pod's readiness; the others never do.
	Required bool `yaml:"required"`
}

// ReadinessConfig says what /readyz answers in states where withheld readiness and held requests exclude each other.
type ReadinessConfig struct {
	// ReadyWhen is "warm" where other pods can take the traffic, "listening" where this pod is alone and requests are held here.
	ReadyWhen ReadyWhen `yaml:"ready_when"`
	// OnRestart says whether readiness is withdrawn while the backend is cold again.
	OnRestart Reaction `yaml:"on_restart"`
	// OnUnhealthy says whether readiness is withdrawn while the backend is unhealthy.
	OnUnhealthy Reaction `yaml:"on_unhealthy"`
}

// DefaultConfig returns the settings used when the user sets none.
func DefaultConfig() Config {
	return Config{Interval: units.Duration(5 * time.Second), UnhealthyAfter: 3, ActiveCheck: CheckAuto}
}

// DefaultReadiness returns the policy used when the user sets none: every field's zero value.
func DefaultReadiness() ReadinessConfig { return ReadinessConfig{} }

// ActiveCheck is what an active check consists of.
type ActiveCheck int

const (
	// CheckAuto asks an endpoint, and confirms a suspicion with a synthetic request.
	CheckAuto ActiveCheck = iota
	// CheckInference sends a synthetic request each time.
	CheckInference
	// CheckEndpoint asks an endpoint and nothing else.
	CheckEndpoint
	// CheckNone asks nothing; only users' traffic and the connection to the backend are watched.
	CheckNone
)

// ActiveCheckValues lists every value, in order.
func ActiveCheckValues() []ActiveCheck {
	return []ActiveCheck{CheckAuto, CheckInference, CheckEndpoint, CheckNone}
}

// String returns the word used in the configuration.
func (c ActiveCheck) String() string {
	switch c {
	case CheckAuto:
		return "auto"
	case CheckInference:
		return "inference"
	case CheckEndpoint:
		return "endpoint"
	case CheckNone:
		return "none"
	default:
		return fmt.Sprintf("ActiveCheck(%d)", int(c))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (c ActiveCheck) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *ActiveCheck) UnmarshalText(text []byte) error {
	value, err := units.ParseName("active_check", text, ActiveCheckValues())
	if err == nil {
		*c = value
	}

	return err
}

// ReadyWhen is the moment from which /readyz answers 200.
type ReadyWhen int

const (
	// WhenWarm is once the backend is warm.
	WhenWarm ReadyWhen = iota
	// WhenListening is once Pilotlight listens; requests that come before the backend is warm are held.
	WhenListening
)

// ReadyWhenValues lists every value, in order.
func ReadyWhenValues() []ReadyWhen { return []ReadyWhen{WhenWarm, WhenListening} }

// String returns the word used in the configuration.
func (r ReadyWhen) String() string {
	switch r {
	case WhenWarm:
		return "warm"
	case WhenListening:
		return "listening"
	default:
		return fmt.Sprintf("ReadyWhen(%d)", int(r))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (r ReadyWhen) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *ReadyWhen) UnmarshalText(text []byte) error {
	value, err := units.ParseName("ready_when", text, ReadyWhenValues())
	if err == nil {
		*r = value
	}

	return err
}

// Reaction says what becomes of readiness that was given once.
type Reaction int

const (
	// Withdraw takes readiness back.
	Withdraw Reaction = iota
	// Keep leaves readiness as it was.
	Keep
)

// ReactionValues lists every value, in order.
func ReactionValues() []Reaction { return []Reaction{Withdraw, Keep} }

// String returns the word used in the configuration.
func (r Reaction) String() string {
	switch r {
	case Withdraw:
		return "withdraw"
	case Keep:
		return "keep"
	default:
		return fmt.Sprintf("Reaction(%d)", int(r))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (r Reaction) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Reaction) UnmarshalText(text []byte) error {
	value, err := units.ParseName("readiness reaction", text, ReactionValues())
	if err == nil {
		*r = value
	}

	return err
}

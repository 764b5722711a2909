package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// RestartBackend says when /livez/backend may ask for a restart of the backend.
type RestartBackend int

const (
	// RestartNever asks for none.
	RestartNever RestartBackend = iota
	// RestartOnFatal asks when the backend said something that it does not recover from.
	RestartOnFatal
	// RestartOnStall asks then too, and when the backend is stalled.
	RestartOnStall
)

var restartBackendNames = units.Names[RestartBackend]{
	RestartNever:   "never",
	RestartOnFatal: "on-fatal",
	RestartOnStall: "on-stall",
}

// RestartBackendValues lists every value, in order.
func RestartBackendValues() []RestartBackend { return restartBackendNames.Values() }

// String returns the word used in the configuration.
func (r RestartBackend) String() string { return restartBackendNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r RestartBackend) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *RestartBackend) UnmarshalText(text []byte) error {
	return restartBackendNames.Parse("restart_backend", text, r)
}

// codes lists the conditions that are a reason to restart.
func (r RestartBackend) codes() []Code {
	switch r {
	case RestartNever:
	case RestartOnFatal:
		return []Code{CodeFatalBackend}
	case RestartOnStall:
		return []Code{CodeFatalBackend, CodeStalled}
	}

	return nil
}

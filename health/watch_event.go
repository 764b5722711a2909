package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// WatchKind is what a Watch saw.
type WatchKind int

const (
	// Lost means that the backend refuses connections: nothing listens any more.
	Lost WatchKind = iota
	// Restarted means that another process listens than before, or one again after Lost: whatever was warm is gone.
	Restarted
	// CheckFailed means that the endpoint check failed, at least as often in a row as was asked for.
	CheckFailed
	// CheckPassed means that the check passes again after a CheckFailed.
	CheckPassed
)

var watchKindNames = units.Names[WatchKind]{
	Lost:        "lost",
	Restarted:   "restarted",
	CheckFailed: "check failed",
	CheckPassed: "check passed",
}

// WatchKindValues lists every value, in order.
func WatchKindValues() []WatchKind { return watchKindNames.Values() }

// String returns the word used in logs.
func (k WatchKind) String() string { return watchKindNames.Of(k) }

// MarshalText implements [encoding.TextMarshaler].
func (k WatchKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// WatchEvent is one thing that a Watch saw.
type WatchEvent struct {
	Kind WatchKind
	// Cause says what was seen; nil for CheckPassed.
	Cause error
	// InARow is how many checks failed in a row, for CheckFailed.
	InARow int
}

package telemetry

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// LogFormat is how a line of the log looks.
type LogFormat int

const (
	// FormatAuto is text on a terminal, JSON otherwise.
	FormatAuto LogFormat = iota
	// FormatText is for people.
	FormatText
	// FormatJSON is for machines.
	FormatJSON
)

var logFormatNames = units.Names[LogFormat]{
	FormatAuto: "auto",
	FormatText: "text",
	FormatJSON: "json",
}

// LogFormatValues lists every value, in order.
func LogFormatValues() []LogFormat { return logFormatNames.Values() }

// String returns the word used in the configuration.
func (f LogFormat) String() string { return logFormatNames.Of(f) }

// MarshalText implements [encoding.TextMarshaler].
func (f LogFormat) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (f *LogFormat) UnmarshalText(text []byte) error {
	return logFormatNames.Parse("log format", text, f)
}

package telemetry

import (
	"log/slog"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// LogLevel is the least severe that is logged. Its values are those of [slog.Level].
type LogLevel int

const (
	// LevelDebug logs what helps to find out why.
	LevelDebug = LogLevel(slog.LevelDebug)
	// LevelInfo logs changes of state.
	LevelInfo = LogLevel(slog.LevelInfo)
	// LevelWarn logs what somebody should look at some day.
	LevelWarn = LogLevel(slog.LevelWarn)
	// LevelError logs what needs a person.
	LevelError = LogLevel(slog.LevelError)
)

var logLevelNames = units.Names[LogLevel]{
	LevelDebug: "debug",
	LevelInfo:  "info",
	LevelWarn:  "warn",
	LevelError: "error",
}

// LogLevelValues lists every value, in order.
func LogLevelValues() []LogLevel { return logLevelNames.Values() }

// Slog returns the level in slog's terms.
func (l LogLevel) Slog() slog.Level { return slog.Level(l) }

// String returns the word used in the configuration.
func (l LogLevel) String() string { return logLevelNames.Of(l) }

// MarshalText implements [encoding.TextMarshaler].
func (l LogLevel) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *LogLevel) UnmarshalText(text []byte) error { return logLevelNames.Parse("log level", text, l) }

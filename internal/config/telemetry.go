package config

import (
	"log/slog"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// TelemetryConfig is the telemetry block of the configuration: what Pilotlight says about itself.
type TelemetryConfig struct {
	// ServerTiming adds a Server-Timing header to answers, with the time held and the backend's time. Never to gRPC.
	ServerTiming bool `yaml:"server_timing"`
	// Log is the log on the standard error stream.
	Log LogConfig `yaml:"log"`
}

// LogConfig shapes the log.
type LogConfig struct {
	// Level is the least severe that is logged.
	Level LogLevel `yaml:"level"`
	// Format is "text" for people and "json" for machines; "auto" is text on a terminal.
	Format LogFormat `yaml:"format"`
}

// DefaultTelemetry returns the settings used when the user sets none.
func DefaultTelemetry() TelemetryConfig {
	return TelemetryConfig{ServerTiming: true, Log: LogConfig{Level: LevelInfo}}
}

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

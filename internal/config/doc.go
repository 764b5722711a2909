// Package config holds what a user writes: one YAML file, environment variables and flags, checked and with every "auto" resolved.
// It refuses to know what any key does; the rooms that act on a key own its type and its default.
package config

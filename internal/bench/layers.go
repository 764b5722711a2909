package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// effective is the configuration in force for that text, as "pilotlight validate" prints it.
func effective(ctx context.Context, s *site, text string) (map[string]any, error) {
	path := filepath.Join(s.folder, "validate.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.pilotlight, "validate", "-c", path) //nolint:gosec // the program that is measured
	var refusal strings.Builder
	cmd.Stderr = &refusal
	printed, err := cmd.Output()
	if err != nil {
		first, _, _ := strings.Cut(refusal.String(), "\n")

		return nil, fmt.Errorf("pilotlight validate: %w: %s", err, strings.TrimPrefix(first, path+":"))
	}
	var values map[string]any
	if err := yaml.Unmarshal(printed, &values); err != nil {
		return nil, fmt.Errorf("read what pilotlight validate prints: %w", err)
	}

	return values, nil
}

// nowhere is a place for a configuration that is only looked at.
func nowhere(folder string) place {
	return place{
		folder: folder, origin: addresses{"127.0.0.1:1", "127.0.0.1:2"}, at: addresses{"127.0.0.1:3", "127.0.0.1:3"},
		health: "127.0.0.1:4", admin: "127.0.0.1:5",
	}
}

// layerKeys are the keys that say what a request passes in Pilotlight, with what they stand for.
var layerKeys = []struct{ path, what string }{
	{"backend.transport", "transport to the backend"},
	{"hold.max_requests", "gate, room for held requests"},
	{"circuit.failure_rate", "breaker, opens above"},
	{"concurrency.limit", "limit of concurrency"},
	{"timeouts.first_byte", "clock of the first byte"},
	{"listen.deny", "denied paths"},
	{"telemetry.server_timing", "Server-Timing header"},
	{"telemetry.traces", "traces"},
	{"telemetry.metrics", "metrics"},
	{"telemetry.access_log", "access log"},
}

// layers says which layers of the handler were on, by the configuration in force.
func layers(values map[string]any) []string {
	lines := make([]string, 0, len(layerKeys))
	for _, key := range layerKeys {
		var value any = values
		known := true
		for name := range strings.SplitSeq(key.path, ".") {
			inner, ok := value.(map[string]any)
			if value, known = inner[name]; !ok || !known {
				known = false

				break
			}
		}
		if known {
			lines = append(lines, fmt.Sprintf("%s: `%s: %v`", key.what, key.path, value))
		} else {
			lines = append(lines, fmt.Sprintf("%s: this build has no `%s`", key.what, key.path))
		}
	}

	return append(lines, "request id: always set where the caller sent none")
}

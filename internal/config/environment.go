package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	// envPrefix begins the names of our environment variables.
	envPrefix = "PILOTLIGHT_"
	// envGrace names the pod's termination grace period, which a container cannot find out by itself.
	envGrace = "PILOTLIGHT_GRACE_PERIOD"
)

// Variable is an environment variable that sets a key.
type Variable struct {
	// Name is the name of the variable.
	Name string
	// Path is the dotted path of the key that it sets.
	Path string
}

// Variables lists the environment variables that set a key: the few things that differ from pod to pod. Everything else belongs in the file.
// An empty variable is as good as none. PILOTLIGHT_GRACE_PERIOD ("30s") sets no key: it says what "auto" in drain.limit is made of.
func Variables() []Variable {
	return []Variable{
		{"PILOTLIGHT_BACKEND_TYPE", "backend.type"},
		{"PILOTLIGHT_BACKEND_HTTP", "backend.http"},
		{"PILOTLIGHT_BACKEND_GRPC", "backend.grpc"},
		{"PILOTLIGHT_BACKEND_WORKERS", "backend.workers"},
		{"PILOTLIGHT_LISTEN_DATA", "listen.data"},
		{"PILOTLIGHT_LISTEN_HEALTH", "listen.health"},
		{"PILOTLIGHT_LISTEN_ADMIN", "listen.admin"},
		{"PILOTLIGHT_LISTEN_ADMIN_TOKEN_FILE", "listen.admin_token_file"},
		{"PILOTLIGHT_READINESS_READY_WHEN", "readiness.ready_when"},
		{"PILOTLIGHT_LOG_LEVEL", "telemetry.log.level"},
		{"PILOTLIGHT_LOG_FORMAT", "telemetry.log.format"},
	}
}

// otherVariables are read elsewhere: the file's path and the library of ONNX Runtime.
func otherVariables() []string {
	return []string{envGrace, "PILOTLIGHT_CONFIG", "PILOTLIGHT_ONNXRUNTIME"}
}

// serviceLink matches the variables that Kubernetes sets in each pod for a Service called pilotlight or pilotlight-something.
var serviceLink = regexp.MustCompile(`^PILOTLIGHT_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// Grace returns the pod's grace period as the environment names it; 0 when it does not.
func Grace(env []string) (units.Duration, error) {
	var grace units.Duration
	for _, variable := range env {
		name, text, _ := strings.Cut(variable, "=")
		if name != envGrace || text == "" {
			continue
		}
		if err := grace.UnmarshalText([]byte(text)); err != nil {
			return 0, err
		}
	}

	return grace, nil
}

// environment applies the variables and returns the grace period, and a warning for each variable that looks like ours but is not.
func (d *document) environment(c *Config, env []string) (grace units.Duration, warnings []Problem) {
	grace, err := Grace(env)
	if err != nil {
		d.problems = append(d.problems, Problem{Source: envGrace, Text: err.Error()})
	}
	known := Variables()
	for _, variable := range env {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || text == "" || slices.Contains(otherVariables(), name) {
			continue
		}
		at := slices.IndexFunc(known, func(v Variable) bool { return v.Name == name })
		if at < 0 {
			if !serviceLink.MatchString(name) {
				warnings = append(warnings, Problem{Source: name, Text: "unknown environment variable" + variableHint(name)})
			}

			continue
		}
		path := known[at].Path
		d.origins[path] = origin{source: name}
		into, _ := lookup(reflect.ValueOf(c).Elem(), path)
		if err := setText(into, text); err != nil {
			d.reportf(path, "%s", err)
		}
	}

	return grace, warnings
}

// variableHint says what an unknown variable was probably meant to be.
func variableHint(name string) string {
	for _, path := range keyPaths(reflect.TypeFor[Config](), "") {
		if envPrefix+strings.ToUpper(strings.ReplaceAll(path, ".", "_")) != name {
			continue
		}
		for _, v := range Variables() {
			if v.Path == path {
				return fmt.Sprintf(", did you mean %s?", v.Name)
			}
		}

		return fmt.Sprintf(": %s is set in the file only", path)
	}
	names := otherVariables()
	for _, v := range Variables() {
		names = append(names, v.Name)
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], envPrefix)
	}
	if near := units.Nearest(strings.TrimPrefix(name, envPrefix), names); near != "" {
		return fmt.Sprintf(", did you mean %s%s?", envPrefix, near)
	}

	return ""
}

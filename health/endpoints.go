package health

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// EndpointSettings is what the endpoints are made of.
type EndpointSettings struct {
	// Machine knows what /readyz answers.
	Machine *Machine
	// Started tells whether we listen and every step that goes before the backend has ended. It must not wait for anything. nil: started as soon as anybody can ask.
	Started func() bool
	// Restart decides what /livez/backend answers; nil: always 200.
	Restart *Restart
	// Drained waits for the end of a drain, or of the context, and returns what /drainz answers; nil: that there is no such path.
	Drained func(ctx context.Context) (status int, text string)
}

// NewEndpoints returns the handler of the health port: /livez, /livez/backend, /startupz, /readyz[?verbose][&model=m] and /drainz. Everything else is 404, nothing is ever proxied, and no answer but that of /drainz waits for anything.
// Answers hold state and condition codes only: whoever reaches the port learns nothing about the configuration.
//
//   - /livez is 200 as long as this process can answer; it never depends on the backend.
//   - /livez/backend is for the liveness probe of the backend's container, and 503 only when a restart is allowed and due.
//   - /startupz is 200 before the backend starts, because Kubernetes starts the main containers only after a native sidecar has started.
//   - /drainz answers once a drain has nothing left to wait for, and acts on nothing.
//   - /readyz is 200 or 503 by the pod's state and the readiness policy. A model that is not known is 404, never 200.
func NewEndpoints(settings EndpointSettings) http.Handler {
	e := endpoints(settings)
	if e.Started == nil {
		e.Started = func() bool { return true }
	}

	return e
}

type endpoints EndpointSettings

// ServeHTTP matches paths as they are: no cleaning and no redirects, which a probe would follow or fail on.
func (e endpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var status int
	var body string
	switch path := r.URL.Path; {
	case !e.has(path):
		status, body = http.StatusNotFound, "not found\n"
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		status, body = http.StatusMethodNotAllowed, "method not allowed\n"
	case path == "/livez":
		status, body = http.StatusOK, "ok\n"
	case path == "/drainz":
		status, body = e.Drained(r.Context())
		body += "\n"
	case path == "/livez/backend":
		status, body = e.backend()
	case path == "/startupz":
		status, body = e.startupz()
	default:
		status, body = e.readyz(r.URL.RawQuery)
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) //nolint:gosec // plain text, and not to be sniffed; a prober that left needs no answer
	}
}

func (e endpoints) has(path string) bool {
	switch path {
	case "/livez", "/livez/backend", "/startupz", "/readyz":
		return true
	case "/drainz":
		return e.Drained != nil
	default:
		return false
	}
}

func (e endpoints) startupz() (status int, body string) {
	if e.Started() {
		return http.StatusOK, "ok\n"
	}

	return http.StatusServiceUnavailable, "not started\n"
}

func (e endpoints) backend() (status int, body string) {
	due, why := e.Restart.Due()
	if due {
		return http.StatusServiceUnavailable, "restart asked for: " + why + "\n"
	}

	return http.StatusOK, "ok: " + why + "\n"
}

func (e endpoints) readyz(query string) (status int, body string) {
	asked, err := parseQuestion(query)
	if err != nil {
		return http.StatusBadRequest, err.Error() + "\n"
	}
	now := e.Machine.Snapshot()
	text := &strings.Builder{}
	ready := now.Ready
	if asked.oneModel {
		one, known := now.Model(asked.model)
		if !known {
			return http.StatusNotFound, "no such model\n"
		}
		ready = one.Ready
		codes := Snapshot{Conditions: now.Conditions, Models: []ModelSnapshot{one}}.Codes()
		answerLine(text, ready, one.State, one.Since, codes, asked.verbose)
		now.Models = []ModelSnapshot{one}
	} else {
		answerLine(text, ready, now.State, now.Since, now.Codes(), asked.verbose)
	}
	if asked.verbose {
		details(text, now)
	}
	if !ready {
		return http.StatusServiceUnavailable, text.String()
	}

	return http.StatusOK, text.String()
}

// answerLine is the first line of an answer: what is so, and the codes that explain it.
func answerLine(text *strings.Builder, ready bool, state State, since time.Time, codes []Code, verbose bool) {
	word := "ok"
	if !ready {
		word = "not ready"
	}
	fmt.Fprintf(text, "%s: %s", word, state)
	if verbose {
		fmt.Fprintf(text, " since %s", stamp(since))
	}
	for i, code := range codes {
		separator := ", "
		if i == 0 {
			separator = " ("
		}
		fmt.Fprintf(text, "%s%s", separator, code)
	}
	if len(codes) > 0 {
		text.WriteByte(')')
	}
	text.WriteByte('\n')
}

// details has one line for the backend, for each model and for each condition. Model names are quoted: they come from the backend and may hold anything.
func details(text *strings.Builder, now Snapshot) {
	fmt.Fprintf(text, "backend %s since %s\n", now.Backend.State, stamp(now.Backend.Since))
	for _, condition := range now.Conditions {
		fmt.Fprintf(text, "condition %s %s since %s\n", condition.Code, condition.Severity, stamp(condition.Since))
	}
	for _, one := range now.Models {
		weight := "optional"
		if one.Required {
			weight = "required"
		}
		fmt.Fprintf(text, "model %q %s %s since %s\n", one.Name, weight, one.State, stamp(one.Since))
		for _, condition := range one.Conditions {
			fmt.Fprintf(text, "condition %s %s of model %q since %s\n", condition.Code, condition.Severity, one.Name, stamp(condition.Since))
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

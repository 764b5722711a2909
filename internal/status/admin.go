package status

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// bodyLimit is how many bytes a request may carry; no endpoint needs any.
const bodyLimit = 4 << 10

// Settings is what the admin endpoints are made of. Functions are called by many requests at once.
type Settings struct {
	// Health, Gate, Circuit and Warmup are the parts of /statusz, each a value that can be written as JSON. nil leaves the part out.
	Health                         func() health.Snapshot
	Gate, Clients, Circuit, Warmup func() any
	// Cold is the part about users' requests that met a cold shape.
	Cold func() any
	// Version is the program's.
	Version string
	// Config returns the effective configuration without its secrets, as a value that can be written as JSON. nil answers 501.
	Config func() any
	// Token is what requests that act must bear. Without one nobody may act.
	Token string
	// Warm begins to warm a model, or all if the name is empty, and does not wait for the end. nil answers 501.
	Warm func(model string) error
	// Drain begins to drain, and does not wait for the end. nil answers 501.
	Drain func()
	// Quit begins to drain and to end, and does not wait for the end; an error says that it may not be asked for. nil answers 501.
	Quit func() error
	// Logger gets a line for each action, and for each that was refused. nil is silent.
	Logger *slog.Logger
}

// NewAdmin returns the handler of the admin port, which listens on loopback only: GET /statusz and /config (indented with ?pretty), POST /warm[?model=m], /drain and /quit. All answers are JSON.
// What acts needs the bearer token. The Host header must name this machine, or a web page could reach the port through the browser of somebody who works here.
func NewAdmin(settings Settings) http.Handler {
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}

	return &admin{settings: settings, token: sha256.Sum256([]byte(settings.Token))}
}

type admin struct {
	settings Settings
	token    [sha256.Size]byte // hashed, so that comparing tells nothing about the length either
}

// failure is the answer to a request that is not served.
type failure struct {
	Error string `json:"error"`
}

// done is the answer to a request that began something.
type done struct {
	Accepted string `json:"accepted"`
	Model    string `json:"model,omitempty"`
}

// ServeHTTP refuses first, and only then looks at what is asked.
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := a.answer(w, r)
	write(w, r, status, body, r.URL.Query().Has("pretty"))
}

// answer returns the status and what to write as JSON.
func (a *admin) answer(w http.ResponseWriter, r *http.Request) (status int, body any) {
	if !isLoopbackHost(r.Host) {
		return http.StatusForbidden, failure{"the Host header must be localhost or a loopback address"}
	}
	methods := "GET, HEAD"
	serve := a.settings.look
	switch r.URL.Path {
	case "/statusz", "/config":
	case "/warm", "/drain", "/quit":
		methods, serve = http.MethodPost, a.act
	default:
		return http.StatusNotFound, failure{"not found: there are GET /statusz and /config, POST /warm, /drain and /quit"}
	}
	if !strings.Contains(", "+methods+",", ", "+r.Method+",") {
		w.Header().Set("Allow", methods)

		return http.StatusMethodNotAllowed, failure{"method not allowed: " + methods}
	}
	if methods == http.MethodPost && !a.authorised(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		a.settings.Logger.Warn("admin action refused", "action", r.URL.Path, "from", r.RemoteAddr)

		return http.StatusUnauthorized, failure{"the bearer token is missing or wrong"}
	}

	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, bodyLimit)); err != nil {
		return http.StatusRequestEntityTooLarge, failure{fmt.Sprintf("read body: at most %d bytes", bodyLimit)}
	}

	return serve(r)
}

// authorised compares in constant time. Without a token in the settings nothing is right.
func (a *admin) authorised(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))

	return subtle.ConstantTimeCompare(given[:], a.token[:]) == 1 && a.settings.Token != "" && strings.EqualFold(scheme, "Bearer")
}

// look serves what only looks.
func (s Settings) look(r *http.Request) (status int, body any) {
	if r.URL.Path == "/statusz" {
		return http.StatusOK, s.document()
	}
	if s.Config == nil {
		return http.StatusNotImplemented, failure{"the configuration is not available"}
	}

	return http.StatusOK, s.Config()
}

// act serves what changes something.
func (a *admin) act(r *http.Request) (status int, body any) {
	model, _, err := health.QueriedModel(r.URL.RawQuery)
	if err != nil {
		return http.StatusBadRequest, failure{err.Error()}
	}
	logger := a.settings.Logger.With("action", r.URL.Path, "model", model, "from", r.RemoteAddr)
	switch {
	case r.URL.Path == "/warm" && a.settings.Warm != nil:
		if err := a.settings.Warm(model); err != nil {
			logger.Info("admin action failed", "error", err)

			return http.StatusConflict, failure{err.Error()}
		}
	case r.URL.Path == "/drain" && a.settings.Drain != nil:
		a.settings.Drain()
	case r.URL.Path == "/quit" && a.settings.Quit != nil:
		if err := a.settings.Quit(); err != nil {
			logger.Warn("admin action refused", "error", err)

			return http.StatusForbidden, failure{err.Error()}
		}
	default:
		return http.StatusNotImplemented, failure{"this cannot be asked for here"}
	}
	logger.Info("admin action taken")

	return http.StatusAccepted, done{Accepted: r.URL.Path[1:], Model: model}
}

// write sends the answer whole, so that a value which cannot be written is an error and no half answer.
func write(w http.ResponseWriter, r *http.Request, status int, body any, pretty bool) {
	text, err := json.Marshal(body)
	if pretty && err == nil {
		text, err = json.MarshalIndent(body, "", "  ")
	}
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"write the answer as JSON: it holds a value that has no form there"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(text, '\n')) // who left needs no answer
	}
}

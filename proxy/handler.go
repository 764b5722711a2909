package proxy

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// loopHeader carries the instances of Pilotlight that a request has passed.
const loopHeader = "X-Pilotlight-Via"

// Handler forwards each request to the backend, holding it while the gate holds.
//
// It changes nothing that it was not asked to change. The exceptions: hop-by-hop headers are those of each hop, what [Forwarded] says happens to the
// headers that tell where a request came from, X-Request-Id is set where it is missing, X-Pilotlight-Via names this instance to the backend, the timeouts
// that callers state are reduced by what was spent here, and Server-Timing tells the client about times. HTTP/1 writes headers in the order of their names; values of one name keep their order.
type Handler struct {
	settings Settings
	gate     *Gate
	instance string
	http     *httputil.ReverseProxy
	grpc     *httputil.ReverseProxy
	direct   *upstream.Transport // nil: everything goes by the standard transport
	pools    [2]*http.Transport
	logger   *slog.Logger
	meter    *meter
	tracing  *tracing
	patrol   patrol
	preface  *preface // nil: it is said where gRPC is spoken
	clients  connections
	closing  atomic.Bool
	tunable  atomic.Pointer[tunable]
}

// tunable is what can be changed while requests are under way; each attempt sees one version.
type tunable struct {
	timeouts       TimeoutsConfig
	deadlineHeader string // in canonical form; empty: none
	assumeDeadline time.Duration
	requeueRefused bool
	maxBody        int64 // bytes of known length that may be held
	maxStreamBody  int64 // bytes of unknown length
	serverTiming   bool
}

// NewHandler returns a handler. Close it to close its connections to the backend.
func NewHandler(settings Settings) *Handler {
	h := &Handler{settings: settings, gate: settings.Gate, instance: strconv.FormatUint(rand.Uint64(), 36), logger: settings.Logger} //nolint:gosec // no secret
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	if h.settings.GRPC.IsZero() {
		h.settings.GRPC = settings.Backend
		if !settings.Backend.TLS { // TLS agrees on a protocol by itself
			h.preface = &preface{}
		}
	}
	if h.settings.Backend.IsZero() {
		h.settings.Backend = h.settings.GRPC
	}
	h.clients.limit, h.clients.logger = int64(settings.Limits.Connections), h.logger
	h.Configure(settings.Timeouts, settings.Hold, settings.ServerTiming)
	h.patrol.blink = blink
	h.tracing = newTracing(settings.Tracer, settings.Propagator, h.settings.Backend)
	var err error
	if h.meter, err = newMeter(settings.Meter); err != nil {
		h.logger.Error("requests are not measured", "error", err)
	}
	h.pools[0] = newTransport(&h.settings, h.settings.Backend, false, nil)
	h.pools[1] = newTransport(&h.settings, h.settings.GRPC, true, h.preface)
	h.http = h.newProxy(h.pools[0], h.settings.Backend)
	if settings.Transport == Direct {
		dial := newDialer(&h.settings, h.settings.Backend)
		if h.settings.Backend.TLS {
			dial = secured(dial, &h.settings, h.settings.Backend, false)
		}
		h.direct = upstream.NewTransport(upstream.Settings{
			Dial:    func(ctx context.Context) (net.Conn, error) { return dial(ctx, "", "") },
			MaxIdle: settings.IdleConnections, IdleTimeout: settings.IdleTimeout,
		})
	}
	h.grpc = h.newProxy(h.pools[1], h.settings.GRPC)

	return h
}

// Configure puts other timeouts, other ways to tell a deadline, and what becomes of requests that the backend refuses, in force, and says whether answers carry Server-Timing. Attempts that have begun keep the timeouts that they began with.
func (h *Handler) Configure(timeouts TimeoutsConfig, hold HoldConfig, serverTiming bool) {
	h.tunable.Store(&tunable{
		timeouts: timeouts, serverTiming: serverTiming,
		deadlineHeader: http.CanonicalHeaderKey(hold.DeadlineHeader), assumeDeadline: hold.AssumeDeadline.Std(), requeueRefused: hold.RequeueRefused,
		maxBody: int64(hold.MaxBody), maxStreamBody: int64(hold.MaxStreamBody),
	})
}

// CloseConnections makes every further answer end its client's connection: HTTP/1 by Connection: close, HTTP/2 by GOAWAY. New requests are still served.
func (h *Handler) CloseConnections() { h.closing.Store(true) }

// Close closes the idle connections to the backend.
func (h *Handler) Close() {
	for _, pool := range h.pools {
		pool.CloseIdleConnections()
	}
	if h.direct != nil {
		h.direct.CloseIdleConnections()
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, ToHTTP) //nolint:contextcheck // the exchange has its request's context
}

// serve answers a request that came by a listener for to.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, to Target) {
	x := &exchange{h: h, r: r, arrived: time.Now(), grpc: isGRPC(r), to: to}
	x.answer.ResponseWriter, x.answer.x = w, x
	if x.own.init(w, r, int64(h.settings.Limits.Body), x.grpc) {
		x.body = &x.own
		if r.ProtoMajor == 1 {
			// Without it net/http reads the rest of the request before the first byte of an answer may leave.
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		defer x.close()
	}
	if reason, refused := h.unfit(x); refused {
		x.refuse(reason)

		return
	}
	if h.settings.ReadyPaths != nil {
		if ready, ok := h.settings.ReadyPaths(r.URL.Path); ok {
			if ready() {
				x.attempt()
			} else {
				x.refuse(NotReady)
			}

			return
		}
	}
	if h.settings.LivePath != nil && h.settings.LivePath(r.URL.Path) {
		x.attempt()

		return
	}
	x.gated = true
	if x.body != nil && (h.settings.Breaker != nil || h.settings.Observed != nil) {
		x.scan.begin(r.URL.Path, x.grpc)
		x.own.scan = &x.scan
	}
	x.span = h.tracing.start(r, x.grpc)
	defer x.report()
	x.run()
}

package proxy

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// newProxy returns the stdlib's reverse proxy, taught to leave things alone.
func (h *Handler) newProxy(transport http.RoundTripper, to units.Address) *httputil.ReverseProxy {
	host := to.Host
	if to.Network == "unix" {
		host = "localhost" // a socket's path is no authority
	}
	scheme := "http"
	if to.TLS {
		scheme = "https"
	}

	return &httputil.ReverseProxy{
		Transport:  transport,
		BufferPool: buffers{},
		ErrorLog:   slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = scheme, host
			keepTarget(p.Out, p.In, to.Base)
			keepHeaders(p.Out, p.In)
			p.Out.Header.Add(loopHeader, h.instance)
			if x, ok := p.In.Context().Value(exchangeKey{}).(*exchange); ok {
				setMissing(p.Out.Header, "X-Request-Id", x.requestID())
				x.passOn(p.Out.Header)
				if p.Out.Body != nil {
					p.Out.Body = x.upload // the reverse proxy wraps it so that Close does not reach it
				}
			}
			preventReplay(p.Out)
		},
		ModifyResponse: func(res *http.Response) error {
			if x, ok := res.Request.Context().Value(exchangeKey{}).(*exchange); ok {
				return x.head(res)
			}

			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
				x.failure = err
			}
		},
	}
}

// head is called with the head of the backend's answer.
func (x *exchange) head(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.clock.tunnel()
		if both, ok := res.Body.(io.ReadWriteCloser); ok {
			res.Body = &tunnel{both, x.clock}
		}
		x.judge.verdict = circuit.Good
		x.judge.start()

		return nil
	}
	limited := x.judge.head(res, x.grpc)
	if limited && x.h.tunable.Load().requeueRefused && x.ticket.Held() > 0 && x.sentBack == 0 && (x.body == nil || (x.body.ended() && x.body.rewind())) {
		x.sentBack++

		return errRefusedBusy
	}
	if x.body != nil {
		x.body.forget()
	}
	x.answer.length = res.ContentLength
	res.ContentLength = 0 // makes the reverse proxy leave flushing to us: it needs a timer, and often a goroutine, for each answer
	res.Body = &answerBody{ReadCloser: res.Body, x: x, res: res}

	return nil
}

// keepTarget sends the very bytes of the client's path and query: a parsed URL forgets how its path was escaped, and the reverse proxy drops
// the parts of a query that it cannot parse.
func keepTarget(out, in *http.Request, base string) {
	out.URL.RawQuery = in.URL.RawQuery
	path, _, _ := strings.Cut(in.RequestURI, "?")
	switch {
	case path == "*":
		out.URL.Opaque = path
	case strings.HasPrefix(path, "/") && (base != "" || !strings.HasPrefix(path, "//")):
		out.URL.Opaque = base + path
	}
}

// keepHeaders restores what the reverse proxy takes away, and adds where the request came from.
func keepHeaders(out, in *http.Request) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := in.Header[name]; ok {
			out.Header[name] = values
		}
	}
	if client, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		if prior := in.Header["X-Forwarded-For"]; len(prior) > 0 {
			client = strings.Join(prior, ", ") + ", " + client
		}
		out.Header["X-Forwarded-For"] = []string{client}
	}
	setMissing(out.Header, "X-Forwarded-Host", in.Host)
	if in.TLS == nil {
		setMissing(out.Header, "X-Forwarded-Proto", "http")
	} else {
		setMissing(out.Header, "X-Forwarded-Proto", "https")
	}
	// HTTP/2 by upgrade would take the connection out of our hands.
	delete(out.Header, "Http2-Settings")
	if strings.EqualFold(out.Header.Get("Upgrade"), "h2c") {
		delete(out.Header, "Upgrade")
		delete(out.Header, "Connection")
	}
	// The copy's own map would never see the values, which come after the body.
	out.Trailer = in.Trailer
}

func setMissing(h http.Header, name, value string) {
	if _, ok := h[name]; !ok && value != "" {
		h[name] = []string{value}
	}
}

// preventReplay keeps [http.Transport] from sending a request a second time by itself, which it does for requests without a body on a reused connection:
// by then the backend may have taken the first one.
func preventReplay(out *http.Request) {
	if out.Body != nil {
		return // never sent again without GetBody
	}
	switch out.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// These are sent again only if one of these headers says that it is harmless. Any other spelling means the same on the wire and nothing to the transport.
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			if values, ok := out.Header[name]; ok {
				delete(out.Header, name)
				out.Header[strings.ToLower(name)] = values
			}
		}
	default:
		// A body of no bytes, whose length is not announced, writes nothing and cannot be rewound.
		out.Body = emptyBody{}
		out.TransferEncoding = []string{"identity"}
	}
}

// requestID returns the caller's request id, or one that is made up at the first call.
func (x *exchange) requestID() string {
	if x.id == "" {
		x.id = x.r.Header.Get("X-Request-ID")
	}
	if x.id == "" {
		x.id = strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // no secret
	}

	return x.id
}

// emptyBody is a body of no bytes that the transport does not know to be empty.
type emptyBody struct{}

// Read implements [io.Reader].
func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements [io.Closer].
func (emptyBody) Close() error { return nil }

// buffers lends the memory through which answers are copied.
type buffers struct{}

var bufferPool = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Get implements [httputil.BufferPool].
func (buffers) Get() []byte {
	buffer, _ := bufferPool.Get().(*[32 << 10]byte)

	return buffer[:]
}

// Put implements [httputil.BufferPool].
func (buffers) Put(b []byte) {
	if len(b) == 32<<10 {
		bufferPool.Put((*[32 << 10]byte)(b))
	}
}

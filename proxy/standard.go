package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// attemptKey is the key of the attempt in its context.
type attemptKey struct{}

// attemptContext carries the attempt to the hooks of the reverse proxy.
type attemptContext struct {
	context.Context //nolint:containedctx // it is one

	a *attempt
}

// Value implements [context.Context].
func (c attemptContext) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return c.a
	}

	return c.Context.Value(key)
}

// attemptOf returns the attempt for which something is done by the reverse proxy, or nil.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)

	return a
}

// errUnasked is an answer that switches protocols without having been asked to.
var errUnasked = errors.New("read answer: it switches to another protocol, which nobody asked for")

// standardFailure is where the reverse proxy leaves the error of an attempt.
type standardFailure struct {
	http.ResponseWriter

	err error
}

// Unwrap lets [http.ResponseController] reach what is below.
func (f *standardFailure) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// standard forwards the request by the standard library's reverse proxy, which calls back, as [Handler.newProxy] says.
func (a *attempt) standard() error {
	x := a.x
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	a.cancel.Store(&cancel)
	out := x.r.WithContext(httptrace.WithClientTrace(attemptContext{ctx, a}, &httptrace.ClientTrace{
		GotConn: a.gotConn,
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				a.clock.sent()
			}
		},
	}))
	if x.body != nil {
		out.Body = a.upload
		if x.overH2() {
			out.GetBody = a.again
		}
	}
	failure := &standardFailure{ResponseWriter: &x.answer}
	if x.overH2() {
		x.h.grpc.ServeHTTP(failure, out)
	} else {
		x.h.http.ServeHTTP(failure, out)
	}
	if failure.err != nil && !a.found && !isDial(failure.err) {
		return errors.Join(errUnfit, failure.err)
	}

	return failure.err
}

// errNotAgain is why a call that the backend has not processed is not sent once more.
var errNotAgain = errors.New("send call again: it was sent twice, or not all of it is kept")

// again gives HTTP/2's transport the body once more. It asks for it when it knows that the backend has not processed the call: the stream was refused, or is above the last one of
// a GOAWAY. It may ask twice before it sends it.
func (a *attempt) again() (io.ReadCloser, error) {
	if asked := a.x.refused && a.x.body.rewound(); !asked && !a.x.onceMore() {
		return nil, errNotAgain
	}
	a.clock.again()
	a.upload = a.x.body.begin(&a.clock)

	return a.upload, nil
}

func isDial(err error) bool {
	_, ok := errors.AsType[*dialError](err)

	return ok
}

// gotConn is called before anything is written.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.found = true
	if conn, ok := plainConn(info.Conn).(*backendConn); ok && !a.x.overH2() { // an HTTP/2 connection is shared, so its count says nothing about us
		a.conn, a.mark = conn, conn.written.Load()
		conn.check.Store(info.Reused)
	}
}

// newProxy returns the stdlib's reverse proxy, taught to leave things alone.
func (h *Handler) newProxy(transport http.RoundTripper, to units.Address) *httputil.ReverseProxy {
	scheme, host := "http", authority(to)
	if to.TLS {
		scheme = "https"
	}

	return &httputil.ReverseProxy{
		Transport:  transport,
		BufferPool: buffers{},
		ErrorLog:   slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = scheme, host
			if text := target(p.In, to.Base); strings.HasPrefix(text, "//") {
				// An opaque URL would begin with an authority. In any other the bytes that RFC 3986 forbids in a path become escapes.
				p.Out.URL.RawQuery = p.In.URL.RawQuery
			} else {
				p.Out.URL.Opaque, p.Out.URL.RawQuery, p.Out.URL.ForceQuery = text, "", false
			}
			a := attemptOf(p.In.Context())
			keepHeaders(p.Out, p.In)
			fields := a.outgoing()
			for _, field := range fields {
				delete(p.Out.Header, field.Name)
			}
			for _, field := range fields {
				if field.Value != "" {
					p.Out.Header.Add(field.Name, field.Value)
				}
			}
			if p.Out.Body != nil {
				p.Out.Body = a.upload // the reverse proxy wraps it so that Close does not reach it
			}
			preventReplay(p.Out)
		},
		ModifyResponse: func(res *http.Response) error { return attemptOf(res.Request.Context()).standardHead(res) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if failure, ok := w.(*standardFailure); ok {
				failure.err = err
			}
		},
	}
}

// standardHead is called with the head of the backend's answer.
func (a *attempt) standardHead(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		if res.Request.Header.Get("Upgrade") == "" {
			return errUnasked // the reverse proxy would see it too, and leave the connection open
		}
		a.switched()
		if both, ok := res.Body.(io.ReadWriteCloser); ok {
			res.Body = &tunnel{both, &a.clock}
		}

		return nil
	}
	if err := a.head(res.StatusCode, res.ContentLength, res.Header, res.Body); err != nil {
		return err
	}
	res.ContentLength = 0 // makes the reverse proxy leave flushing to us: it needs a timer, and often a goroutine, for each answer
	res.Body = &answerBody{ReadCloser: res.Body, a: a, res: res}

	return nil
}

// answerBody is the body of an answer on its way to the client. It tells the clock and the judge what comes.
type answerBody struct {
	io.ReadCloser

	a   *attempt
	res *http.Response
}

// Read implements [io.Reader].
func (b *answerBody) Read(p []byte) (int, error) {
	b.a.clock.waiting()
	n, err := b.a.ahead.read(p, b.ReadCloser)
	if x := b.a.x; err != nil && !errors.Is(err, io.EOF) && x.grpc && x.tooLong() {
		x.endCall(b.res)
		err = io.EOF
	}
	b.a.read(p[:n], err, b.res.Trailer)

	return n, err
}

// keepHeaders restores what the reverse proxy takes away.
func keepHeaders(out, in *http.Request) {
	for _, name := range forwardedNames {
		if values, ok := in.Header[name]; ok {
			out.Header[name] = values
		}
	}
	// HTTP/2 by upgrade would take the connection out of our hands.
	delete(out.Header, "Http2-Settings")
	if httpguts.HeaderValuesContainsToken(out.Header["Upgrade"], "h2c") {
		delete(out.Header, "Upgrade")
		delete(out.Header, "Connection")
	}
	// The copy's own map would never see the values, which come after the body.
	out.Trailer = in.Trailer
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

// emptyBody is a body of no bytes that the transport does not know to be empty.
type emptyBody struct{}

// Read implements [io.Reader].
func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements [io.Closer].
func (emptyBody) Close() error { return nil }

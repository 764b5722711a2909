package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"

	"golang.org/x/net/http/httpguts"
)

// RoundTrip implements [http.RoundTripper]: the same exchanges for callers that have no use for their speed. The backend is the one of the settings, whatever the URL says.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &roundTrip{r: r, trace: httptrace.ContextClientTrace(r.Context())}
	request := &Request{Method: r.Method, Target: r.URL.RequestURI(), Host: r.Host, Header: r.Header, Length: r.ContentLength, Trailer: r.Trailer}
	if request.Method == "" {
		request.Method = http.MethodGet
	}
	if request.Host == "" {
		request.Host = r.URL.Host
	}
	if r.URL.Opaque != "" {
		request.Target = r.URL.Opaque
	}
	if httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") {
		request.Upgrade = r.Header.Get("Upgrade")
	}
	if r.Body != nil && r.Body != http.NoBody {
		request.Body, request.Expect = r.Body, r.Header.Get("Expect") != ""
		if r.ContentLength == 0 {
			request.Length = -1 // that is what it means there
		}
	}
	x.stop = context.AfterFunc(r.Context(), x.exchange.Cancel)
	res := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r, Body: x}
	if err := x.exchange.Do(r.Context(), t, request, x, res.Header); err != nil {
		_ = x.Close()
		if cause := context.Cause(r.Context()); cause != nil {
			err = cause
		}

		return nil, err
	}
	x.res = res
	res.StatusCode, res.ContentLength = x.exchange.Status, x.exchange.Length
	res.Status = http.StatusText(res.StatusCode)
	if trailers := x.exchange.Trailers; len(trailers) > 0 {
		res.Trailer = http.Header{}
		for _, name := range trailers {
			res.Trailer[name] = nil
		}
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = &tunnelBody{x.exchange.Tunnel(), x}
	}

	return res, nil
}

// roundTrip is one call of RoundTrip, and the body of its answer.
type roundTrip struct {
	exchange Exchange
	r        *http.Request
	res      *http.Response
	trace    *httptrace.ClientTrace
	stop     func() bool
}

// Dialed implements [Watcher].
func (*roundTrip) Dialed() error { return nil }

// Sent implements [Watcher].
func (x *roundTrip) Sent() {
	if x.trace != nil && x.trace.WroteRequest != nil {
		x.trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
}

// Interim implements [Watcher].
func (x *roundTrip) Interim(status int, header http.Header) {
	if x.trace != nil && x.trace.Got1xxResponse != nil {
		_ = x.trace.Got1xxResponse(status, textproto.MIMEHeader(header))
	}
}

// Read implements [io.Reader].
func (x *roundTrip) Read(p []byte) (int, error) {
	n, err := x.exchange.Read(p)
	if errors.Is(err, io.EOF) {
		for name, values := range x.exchange.Trailer() {
			if x.res.Trailer == nil {
				x.res.Trailer = http.Header{}
			}
			x.res.Trailer[name] = values
		}
	}

	return n, err
}

// Close implements [io.Closer].
func (x *roundTrip) Close() error {
	x.stop()
	x.exchange.Close()
	if x.r.Body != nil {
		return x.r.Body.Close()
	}

	return nil
}

// tunnelBody is the body of an answer with status 101, as the standard library has it.
type tunnelBody struct {
	*Tunnel

	x *roundTrip
}

// Close implements [io.Closer].
func (b *tunnelBody) Close() error { return b.x.Close() }

package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	// DefaultBodyLimit bounds the answers that a Client reads when ClientSettings name no bound.
	DefaultBodyLimit = 64 << 20
	// DefaultControlTimeout limits calls that do no inference when ClientSettings name no limit.
	DefaultControlTimeout = 5 * time.Second
	// DefaultConnectTimeout limits connecting when ClientSettings name no limit.
	DefaultConnectTimeout = time.Second

	headerLimit = 256 << 10
	// fallbackDelay is how long a connection over the first IP version may take before the other one is tried beside it.
	fallbackDelay = 100 * time.Millisecond
	// keepTalking is how long the connection of a question waits for another one.
	keepTalking = 100 * time.Millisecond
	// SyntheticHeader marks every request that Pilotlight makes by itself.
	SyntheticHeader = "X-Pilotlight-Synthetic"
)

// ClientSettings says where the backend is and how it is spoken to.
type ClientSettings struct {
	// Network is "tcp" or "unix"; Address is host:port or the path of the socket.
	Network, Address string
	// BasePath stands before every path, as in "/base"; empty for most servers.
	BasePath string
	// TLS makes it HTTPS; nil is plain HTTP.
	TLS *tls.Config
	// GRPC is where gRPC is spoken, when that is another address; zero: at the same one.
	GRPC Peer
	// Headers returns what goes with each request, and is never logged; nil: nothing.
	Headers func() (http.Header, error)
	// Version of Pilotlight, for the User-Agent.
	Version string
	// BodyLimit bounds answers, in bytes; 0 means DefaultBodyLimit.
	BodyLimit int64
	// ConnectTimeout limits connecting; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// ControlTimeout limits calls that do no inference; 0 means DefaultControlTimeout.
	ControlTimeout time.Duration
	// DialContext connects; nil means the network. Tests set it to reach an in-memory server.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Peer is an address and how it is spoken to.
type Peer struct {
	// Network is "tcp" or "unix"; Address is host:port or the path of the socket.
	Network, Address string
	// TLS makes it HTTPS; nil is plain.
	TLS *tls.Config
}

// Client sends the requests that Pilotlight makes by itself. Each inference goes over a connection of its own: servers that share a port among several
// processes share connections out, not requests, so a kept connection would warm one process only. It is safe for concurrent use.
type Client struct {
	settings  ClientSettings
	transport *http.Transport
	// talk keeps its connection for a moment: the questions before the first inference follow one another at once, and each new connection makes
	// the backend wake up once more.
	talk *http.Transport
	host string
	// grpc is a Client of the address where gRPC is spoken; its own is nil.
	grpc *Client
	// loopback are the addresses that the cheap probe may try; empty: net.Dialer.
	loopback []netip.AddrPort
}

// NewClient returns a Client; it connects to nothing yet.
func NewClient(s ClientSettings) (*Client, error) {
	if s.Network != "tcp" && s.Network != "unix" {
		return nil, fmt.Errorf("make client: network %q, expected tcp or unix", s.Network)
	}
	if s.Address == "" {
		return nil, errors.New("make client: no address")
	}
	if s.BodyLimit <= 0 {
		s.BodyLimit = DefaultBodyLimit
	}
	if s.ConnectTimeout <= 0 {
		s.ConnectTimeout = DefaultConnectTimeout
	}
	if s.ControlTimeout <= 0 {
		s.ControlTimeout = DefaultControlTimeout
	}
	s.BasePath = strings.TrimSuffix(s.BasePath, "/")
	c := &Client{settings: s, host: s.Address}
	if s.Network == "unix" {
		// A socket's path is no authority; strict servers refuse it.
		c.host = "localhost"
	} else if s.DialContext == nil {
		c.loopback = loopbacks(s.Address)
	}
	c.transport = &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        s.TLS,
		TLSHandshakeTimeout:    10 * time.Second,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: headerLimit,
	}
	c.talk = c.transport.Clone()
	c.talk.DisableKeepAlives, c.talk.MaxIdleConnsPerHost, c.talk.IdleConnTimeout = false, 1, keepTalking
	c.grpc = c.framed()

	return c, nil
}

// Request is one request to the backend.
type Request struct {
	Method string
	// Path is below the base path, percent-encoded where it must be.
	Path string
	// Header goes along; a Content-Type in it wins over the one for JSON.
	Header http.Header
	// Body is JSON unless the Header says otherwise; nil for none.
	Body []byte
	// Streams says that the answer may come in events, whose times are to be noted.
	Streams bool
	// GRPC says that it is a gRPC call: Path is the method and Body its message.
	GRPC bool
}

// Address is where the backend is, for error texts.
func (c *Client) Address() string { return c.settings.Address }

// Do sends a request over a new connection and reads the answer. When ctx ends, the connection is closed, which is how the backend learns
// of it. An error means that no whole answer came; whatever the status, an answer is none.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	if r.GRPC {
		// HTTP/2 requests would share a connection, however short its life.
		alone := c.grpc.overHTTP2(c.transport)
		defer alone.CloseIdleConnections()

		return c.grpc.do(ctx, alone, r)
	}

	return c.do(ctx, c.transport, r)
}

// do sends a request over a connection of transport.
func (c *Client) do(ctx context.Context, transport *http.Transport, r Request) (Answer, error) {
	request, err := c.request(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	var timing Timing
	start := time.Now()
	trace := &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { timing.Connect = time.Since(start) },
		GotFirstResponseByte: func() { timing.FirstByte = time.Since(start) },
	}
	// The transport by itself follows no redirect, keeps no cookie and sends nothing twice over a new connection.
	response, err := transport.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return Answer{}, c.transportError(ctx, r, err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing depends on it: the body has been read, or failed
	body, err := c.read(response.Body, r.Streams, start, &timing)
	if err != nil {
		return Answer{}, c.transportError(ctx, r, fmt.Errorf("read answer: %w", err))
	}
	timing.Total = time.Since(start)
	answer := Answer{Status: response.StatusCode, Header: response.Header, Trailer: response.Trailer, Body: body, Timing: timing}
	if int64(len(body)) > c.settings.BodyLimit {
		answer.Body, answer.Truncated = body[:c.settings.BodyLimit], true
	}

	return answer, nil
}

// read reads a body up to one byte beyond the limit, and notes when its events came where it streams.
func (c *Client) read(source io.Reader, streams bool, start time.Time, timing *Timing) ([]byte, error) {
	if !streams {
		return io.ReadAll(io.LimitReader(source, c.settings.BodyLimit+1))
	}
	clock := tokenClock{limit: c.settings.BodyLimit, begin: start}
	err := clock.read(source)
	timing.Events, timing.FirstEvent, timing.LastEvent = clock.events, clock.first, clock.last

	return clock.body, err
}

// control is for a call that does no inference, and so has to be answered soon, and may share a connection with the one before.
func (c *Client) control(ctx context.Context, method, path string, body []byte) (Answer, error) {
	return c.ask(ctx, Request{Method: method, Path: path, Body: body})
}

// ask is control for a request of any kind.
func (c *Client) ask(ctx context.Context, r Request) (Answer, error) {
	client := c
	if r.GRPC {
		client = c.grpc
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.settings.ControlTimeout,
		fmt.Errorf("no answer within %v", c.settings.ControlTimeout))
	defer cancel()
	answer, err := client.do(limited, client.talk, r)
	if failed, ok := errors.AsType[*Error](err); ok && ctx.Err() == nil {
		// A server that does not answer in time while it loads is not there yet.
		failed.Kind = ErrNotYet
	}

	return answer, err
}

func (c *Client) request(ctx context.Context, r Request) (*http.Request, error) {
	scheme := "http"
	if c.settings.TLS != nil {
		scheme = "https"
	}
	target, err := url.Parse(scheme + "://" + c.host + c.settings.BasePath + r.Path)
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", r.Path, err)
	}
	if r.GRPC {
		r.Body = frame(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", r.Path, err)
	}
	if c.settings.Headers != nil {
		headers, err := c.settings.Headers()
		if err != nil {
			return nil, fmt.Errorf("make request for %s: %w", r.Path, err)
		}
		maps.Copy(request.Header, headers)
		if host := headers.Get("Host"); host != "" {
			request.Host = host
		}
	}
	if r.Body == nil {
		request.Body = http.NoBody
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, r.Header)
	if r.GRPC {
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("TE", "trailers")
	}
	request.Header.Set("User-Agent", "pilotlight/"+c.settings.Version+" (synthetic)")
	request.Header.Set(SyntheticHeader, "1")

	return request, nil
}

// transportError tells why no answer came. Whoever waits for a server to come up takes it for "not yet", unless it was the caller who left.
func (c *Client) transportError(ctx context.Context, r Request, err error) error {
	failed := &Error{Act: r.Method + " " + r.Path, Kind: ErrNotYet, Err: err}
	if r.GRPC && c.settings.GRPC.Address == "" { // the standard library has no error of its own for a server that speaks HTTP/1.1 only
		failed.Err = fmt.Errorf("%w; if gRPC is not spoken at %s, backend.grpc says where it is", err, c.settings.Address)
	}
	if ctx.Err() != nil {
		// The cause says whose limit it was.
		failed.Kind, failed.Err = nil, context.Cause(ctx)
	}

	return failed
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.ConnectTimeout)
	defer cancel()
	if c.settings.DialContext != nil {
		return c.settings.DialContext(ctx, c.settings.Network, c.settings.Address)
	}
	dialer := net.Dialer{FallbackDelay: fallbackDelay}

	return dialer.DialContext(ctx, c.settings.Network, c.settings.Address)
}

package main

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
)

// newFloor returns the proxy that anybody writes in ten lines with the standard library, with the three settings that everybody finds in the end: enough idle connections,
// a pool of buffers and full duplex. It is what Pilotlight is compared with.
func newFloor(plain, grpc string) *http.Server {
	http2, both := &http.Protocols{}, &http.Protocols{}
	http2.SetUnencryptedHTTP2(true)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	forward := func(transport *http.Transport, to string) *httputil.ReverseProxy {
		return &httputil.ReverseProxy{
			Transport: transport, BufferPool: buffers{}, FlushInterval: -1,
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = "http", to
				r.Out.Host = r.In.Host
				r.SetXForwarded()
			},
		}
	}
	pool := func(protocols *http.Protocols) *http.Transport {
		return &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true, Protocols: protocols}
	}
	first, second := forward(pool(nil), plain), forward(pool(http2), grpc)

	return &http.Server{ //nolint:gosec // its only client is the bench
		Protocols: both,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				second.ServeHTTP(w, r)

				return
			}
			// Else the server closes the request's body as soon as the answer begins, the transport, which has yet to see the body's end, takes that for a
			// broken upload, and one answer in a hundred breaks off in its middle.
			_ = http.NewResponseController(w).EnableFullDuplex()
			first.ServeHTTP(w, r)
		}),
	}
}

// buffers lends the memory through which bodies are copied.
type buffers struct{}

var bufferPool = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Get implements [httputil.BufferPool].
func (buffers) Get() []byte {
	buffer, _ := bufferPool.Get().(*[32 << 10]byte)

	return buffer[:]
}

// Put implements [httputil.BufferPool].
func (buffers) Put(b []byte) { bufferPool.Put((*[32 << 10]byte)(b)) }

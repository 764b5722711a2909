package proxy

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

const (
	// streamWindow is how much of one HTTP/2 body may be on its way unread, in bytes: the protocol's own default. net/http's server takes all of it into memory, so
	// it is charged to the budget of held bodies wherever nobody reads any more.
	streamWindow = 64 << 10
	// maxConnectionWindow bounds the same for a whole connection.
	maxConnectionWindow = 256 << 20
	// quietClient is how long an HTTP/2 connection may be silent before its client is asked whether it is still there. One that holds back the rest of a head
	// cannot answer, and without the question could stay until its connection counts as idle.
	quietClient = 30 * time.Second
	// answerPing is how long it may take to say so.
	answerPing = 15 * time.Second
)

// Server returns a server of the data port: HTTP/1.1 and HTTP/2 on one listener, with TLS if the settings have it. The caller serves and shuts it down.
func (h *Handler) Server() *http.Server { return h.ServerTo(ToHTTP) }

// ServerTo is Server for a listener whose requests are for one of the backend's addresses. All servers share the gate, the limits and what else the handler has.
func (h *Handler) ServerTo(to Target) *http.Server {
	limits := h.settings.Limits
	streams := max(1, limits.StreamsPerConnection)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	var secure *tls.Config
	if h.settings.TLS != nil {
		secure = h.settings.TLS.Clone()
		protocols.SetHTTP2(true)
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}

	return &http.Server{
		Handler:                      h.handler(to),
		TLSConfig:                    secure,
		Protocols:                    protocols,
		ConnContext:                  h.born,
		ReadHeaderTimeout:            limits.HeaderTimeout.Std(),
		MaxHeaderBytes:               limits.headRoom(),
		IdleTimeout:                  h.settings.ClientIdleTimeout,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for the backend
		ErrorLog:                     slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:      streams,
			MaxReceiveBufferPerStream: streamWindow,
			// Room for every stream's window: bodies that wait for their turn, here or for a slow backend, must not stop the others on their connection. What bounds their
			// memory is the budget; a smaller window would only let those that wait fill it.
			MaxReceiveBufferPerConnection: min(streams*streamWindow, maxConnectionWindow),
			// A whole connection whose client reads nothing; that the window of one stream stays closed is for its exchange's clock to see.
			WriteByteTimeout: h.settings.Timeouts.WriteStall.Std(),
			SendPingTimeout:  quietClient,
			PingTimeout:      answerPing,
		},
	}
}

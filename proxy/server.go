package proxy

import (
	"log/slog"
	"net/http"
	"time"
)

const (
	// streamWindow is how much of one HTTP/2 body may be on its way unread, in bytes.
	streamWindow = 128 << 10
	// maxConnectionWindow bounds the same for a whole connection.
	maxConnectionWindow = 256 << 20
)

// Server returns the server of the data port: HTTP/1.1 and HTTP/2 without TLS on one listener. The caller serves and shuts it down.
func (h *Handler) Server() *http.Server {
	limits := h.settings.Limits
	streams := max(1, limits.StreamsPerConnection)
	idle := h.settings.ClientIdleTimeout
	if idle == 0 {
		idle = 65 * time.Minute
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	return &http.Server{
		Handler:                      h,
		Protocols:                    protocols,
		ReadHeaderTimeout:            limits.HeaderTimeout.Std(),
		MaxHeaderBytes:               int(limits.HeaderBytes),
		IdleTimeout:                  idle,
		ConnContext:                  withClient,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for the backend
		ErrorLog:                     slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:      streams,
			MaxReceiveBufferPerStream: streamWindow,
			// Room for every stream's window: bodies that wait for their turn must not stop the others on their connection.
			MaxReceiveBufferPerConnection: min(streams*streamWindow, maxConnectionWindow),
			// A whole connection whose client reads nothing; that the window of one stream stays closed is for its exchange's clock to see.
			WriteByteTimeout: h.settings.Timeouts.WriteStall.Std(),
		},
	}
}

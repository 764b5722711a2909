package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// secured adds TLS to what dial connects. A handshake that fails is a connection that could not be made: nothing of a request was sent.
func secured(dial dialFunc, settings *Settings, address units.Address, h2 bool) dialFunc {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if settings.BackendTLS != nil {
		config = settings.BackendTLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address.Host)
	}
	config.NextProtos = []string{"http/1.1"}
	if h2 {
		config.NextProtos = []string{"h2"}
	}

	return func(ctx context.Context, network, to string) (net.Conn, error) {
		ctx, cancel := settings.connecting(ctx)
		defer cancel()
		plain, err := dial(ctx, network, to)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, config)
		if err = conn.HandshakeContext(ctx); err == nil && h2 && conn.ConnectionState().NegotiatedProtocol != "h2" {
			err = fmt.Errorf("expected HTTP/2, got protocol %q", conn.ConnectionState().NegotiatedProtocol)
		}
		if err != nil {
			_ = plain.Close()

			return nil, &dialError{fmt.Errorf("agree on TLS with %s: %w", address, err)}
		}

		return conn, nil
	}
}

// plainConn is the connection below TLS, or conn itself.
func plainConn(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}

	return conn
}

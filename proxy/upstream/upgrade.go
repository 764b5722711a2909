package upstream

import "io"

// Tunnel is a connection that the backend has switched to another protocol. The exchange's Cancel and Close end it.
type Tunnel struct{ conn *conn }

// Tunnel returns the connection after an answer with status 101.
func (e *Exchange) Tunnel() *Tunnel { return &Tunnel{e.conn} }

// Read implements [io.Reader].
func (t *Tunnel) Read(p []byte) (int, error) { return t.conn.r.Read(p) }

// Write implements [io.Writer].
func (t *Tunnel) Write(p []byte) (int, error) { return t.conn.Conn.Write(p) }

// Close implements [io.Closer].
func (t *Tunnel) Close() error { return t.conn.Close() }

// CloseWrite hands on a half-close. A connection that cannot be closed by halves is closed.
func (t *Tunnel) CloseWrite() error {
	if half, ok := t.conn.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}

	return t.Close()
}

var _ io.ReadWriteCloser = (*Tunnel)(nil)

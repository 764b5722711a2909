package proxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// tunnel is the backend's side of an upgraded connection. It tells the clock what moves through it.
type tunnel struct {
	io.ReadWriteCloser

	clock *clock
}

// Read implements [io.Reader].
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.clock.moved()

	return n, err
}

// Write implements [io.Writer].
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Write(p)
	t.clock.moved()

	return n, err
}

// CloseWrite hands on the client's half-close, after which the backend may still speak.
func (t *tunnel) CloseWrite() error { return closeWrite(t.ReadWriteCloser) }

// connect joins the client's connection with the backend's, which has switched to another protocol, until both sides have said their last.
func (a *attempt) connect(header http.Header) error {
	client, buffered, err := http.NewResponseController(a.x.answer.ResponseWriter).Hijack()
	if err != nil {
		return fmt.Errorf("switch protocols: %w", err)
	}
	defer func() { _ = client.Close() }()
	a.tunnel.Store(&client)
	head := &http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: header}
	if err := head.Write(buffered); err != nil {
		a.x.leave()
	}
	if err := buffered.Flush(); err != nil {
		a.x.leave()
	}
	backend := &tunnel{a.exchange.Tunnel(), &a.clock}
	broken := func() {
		_ = client.Close()
		_ = backend.Close()
	}
	// What net/http has read ahead comes first. Its reader is of no use beyond: to it the client's half-close is the end of the request, which ends the tunnel.
	ahead := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := io.Copy(backend, io.MultiReader(ahead, client)); err != nil || backend.CloseWrite() != nil {
			broken()
		}
	})
	if _, err := io.Copy(client, backend); err != nil || closeWrite(client) != nil {
		broken()
	}
	up.Wait()

	return nil
}

// closeWrite tells the other end that this one has said its last; what cannot be closed by halves is closed.
func closeWrite(conn io.Closer) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}

	return conn.Close()
}

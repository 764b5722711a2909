package proxy

import "io"

// tunnel is the backend's side of an upgraded connection. It tells the clock what moves through it.
type tunnel struct {
	io.ReadWriteCloser

	clock *clock
}

// Read implements [io.Reader].
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.clock.moved()

	return n, err //nolint:wrapcheck // a reader hands on io.EOF as it is
}

// Write implements [io.Writer].
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Write(p)
	t.clock.moved()

	return n, err //nolint:wrapcheck // a writer hands errors on
}

// CloseWrite hands on the client's half-close, after which the backend may still speak.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite() //nolint:wrapcheck // as above
	}

	return t.Close()
}

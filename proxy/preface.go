package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// errNoHTTP2 is what comes of a connection to a server that speaks something else. It has taken no request.
var errNoHTTP2 = errors.New("connect for gRPC: the server does not speak HTTP/2")

const (
	// clientPreface begins an HTTP/2 connection: fixed words, and a frame without settings. A server of HTTP/1 takes it for a request that it cannot read.
	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	// noHTTP2For is for how long a server that does not speak HTTP/2 is not asked again.
	noHTTP2For = 5 * time.Second
	// answerPreface is how long it may take to say so. One that says nothing is asked for real.
	answerPreface = time.Second
)

// preface finds out, once, whether a server speaks HTTP/2 where nobody has said that it does: calls would otherwise break on one that does not, as on one that is sick.
// All its methods may be called concurrently.
type preface struct {
	mu    sync.Mutex
	knows bool      // it speaks HTTP/2
	until time.Time // it does not, and is not asked again before
}

// ask returns errNoHTTP2 if the server does not speak HTTP/2, or the error of dial.
func (p *preface) ask(ctx context.Context, dial dialFunc, network, address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.knows:
		return nil
	case time.Now().Before(p.until):
		return errNoHTTP2
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if speaks(conn) {
		p.knows = true

		return nil
	}
	p.until = time.Now().Add(noHTTP2For)

	return errNoHTTP2
}

// forget makes the next call ask again: another server may be there.
func (p *preface) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.knows, p.until = false, time.Time{}
}

// speaks says whether what comes back to a preface may be HTTP/2: a small frame, whose length begins with 0. Words do not. Nothing at all says nothing.
func speaks(conn net.Conn) bool {
	_ = conn.SetDeadline(time.Now().Add(answerPreface))
	if _, err := conn.Write([]byte(clientPreface)); err != nil {
		return true
	}
	var first [1]byte
	n, err := conn.Read(first[:])

	return err != nil || n == 0 || first[0] == 0
}

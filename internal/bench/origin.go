package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// sizes are the bodies that are asked for, in bytes.
var sizes = []int{1 << 10, 64 << 10, 1 << 20, 16 << 20}

// origin is the model server of the bench, which is simulated: it answers at once what it is asked for. Each connection has a goroutine and costs no
// allocation for a request, so that as little as possible of what is measured is its own.
type origin struct {
	// asked are the whole answers by what the request asks for.
	asked map[string][]byte
	// protocol are the whole answers of an Open Inference Protocol server by path.
	protocol map[string][]byte
	unknown  []byte
}

func newOrigin() *origin {
	o := &origin{asked: map[string][]byte{}, protocol: map[string][]byte{}, unknown: answer("404 Not Found", "application/json", []byte(`{"error":"no such path"}`))}
	for _, size := range sizes {
		o.asked[askBytes(size)] = answer("200 OK", "application/octet-stream", bytes.Repeat([]byte("a"), size))
	}
	for path, body := range map[string]string{
		"/v2":                    `{"name":"bench","version":"1","extensions":[]}`,
		"/v2/health/live":        `{"live":true}`,
		"/v2/health/ready":       `{"ready":true}`,
		"/v2/repository/index":   `[{"name":"bench","version":"1","state":"READY"}]`,
		"/v2/models/bench":       `{"name":"bench","versions":["1"],"platform":"simulated","inputs":[{"name":"x","datatype":"FP32","shape":[1]}],"outputs":[{"name":"y","datatype":"FP32","shape":[1]}]}`,
		"/v2/models/bench/ready": `{"name":"bench","ready":true}`,
		"/v2/models/bench/infer": `{"model_name":"bench","outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[1]}]}`,
	} {
		o.protocol[path] = answer("200 OK", "application/json", []byte(body))
	}

	return o
}

// askBytes asks for an answer of that size.
func askBytes(size int) string { return "bytes=" + strconv.Itoa(size) }

// askTokens asks for a stream of tokens.
func askTokens(count int, rate float64) string { return fmt.Sprintf("tokens=%d rate=%g", count, rate) }

// answer is a whole answer as it goes over the wire.
func answer(status, contentType string, body []byte) []byte {
	return append(fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", status, contentType, len(body)), body...)
}

// serve accepts until the listener is closed. When ctx ends, so do the connections.
func (o *origin) serve(ctx context.Context, listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go func() {
			defer func() { _ = connection.Close() }()
			defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
			_ = o.converse(ctx, connection) // the other side is gone: it knows
		}()
	}
}

// converse answers the requests of one connection.
func (o *origin) converse(ctx context.Context, connection net.Conn) error {
	request := message{request: true}
	buffer := make([]byte, 64<<10)
	for {
		n, err := connection.Read(buffer)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		for rest := buffer[:n]; len(rest) > 0; {
			var done bool
			if rest, done, err = request.feed(rest); err != nil {
				return err
			}
			if !done {
				break
			}
			if err := o.answer(ctx, connection, &request); err != nil {
				return err
			}
			request.reset()
		}
	}
}

func (o *origin) answer(ctx context.Context, connection net.Conn, request *message) error {
	reply, known := o.protocol[string(request.target())]
	if len(request.ask) > 0 {
		if reply, known = o.asked[string(request.ask)]; !known {
			return stream(ctx, connection, string(request.ask))
		}
	}
	if !known {
		reply = o.unknown
	}
	_, err := connection.Write(reply)

	return err
}

// stream answers with server-sent events at a fixed rate. Each token holds the time at which it is sent.
func stream(ctx context.Context, connection net.Conn, ask string) error {
	var count int
	var rate float64
	if _, err := fmt.Sscanf(ask, "tokens=%d rate=%g", &count, &rate); err != nil || rate <= 0 {
		_, _ = connection.Write(answer("400 Bad Request", "text/plain", []byte("expected bytes=N or tokens=N rate=PER_SECOND, got "+ask)))

		return errors.New("a request asks for what the origin does not have")
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := connection.Write([]byte(head)); err != nil {
		return err
	}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	chunk := make([]byte, 0, 64)
	for range count {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		chunk = appendToken(append(chunk[:0], fmt.Sprintf("%x\r\n", tokenSize)...), monotonic())
		if _, err := connection.Write(append(chunk, "\r\n"...)); err != nil {
			return err
		}
	}
	_, err := connection.Write([]byte("0\r\n\r\n"))

	return err
}

package health

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// maxAsked bounds a gRPC request, in bytes. It holds the name of one service.
	maxAsked = 64 << 10
	// messageHead is what gRPC writes before each message, in bytes.
	messageHead = 5
	// askTime is how long a caller may take to say what it asks for. What it is told afterwards takes as long as it takes.
	askTime = 5 * time.Second
)

// GRPC is the handler of a port that speaks grpc.health.v1.Health beside plain HTTP. It needs an [http.Server] that speaks HTTP/2, with or without TLS.
//
// The server of grpc-go does the calls, but net/http owns the connections, by [grpc.Server.ServeHTTP]: a client may send probes and calls over the same connection,
// which no splitting of the listener could tell apart, and who closes the one server has closed everything. What grpc-go's own transport would do better (throughput) is not needed for answers of two bytes.
//
// All methods may be called concurrently.
type GRPC struct {
	rest   http.Handler
	calls  *grpc.Server
	closed chan struct{}
	close  func()
}

// NewGRPC returns a handler that answers for the machine, and gives what is no gRPC call to rest.
func NewGRPC(machine *Machine, rest http.Handler) *GRPC {
	closed := make(chan struct{})
	g := &GRPC{rest: rest, calls: grpc.NewServer(grpc.MaxRecvMsgSize(maxAsked)), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
	grpc_health_v1.RegisterHealthServer(g.calls, &services{machine: machine, audience: newAudience(machine), closed: closed})

	return g
}

// Close ends every watch, and each one that is begun later: for [http.Server.RegisterOnShutdown], since a Shutdown waits for calls to end and a watch has no end of its own.
// After a [http.Server.Close] it is not needed.
func (g *GRPC) Close() { g.close() }

// ServeHTTP tells a call from the rest by its content type, as gRPC does.
func (g *GRPC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		g.rest.ServeHTTP(w, r)

		return
	}
	// Behind ServeHTTP grpc-go reads the whole body into memory, however long it is, so both its length and its time are bounded here.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(askTime)) // fails only where there are no deadlines
	r.Body = http.MaxBytesReader(w, r.Body, messageHead+maxAsked)
	g.calls.ServeHTTP(w, r)
}

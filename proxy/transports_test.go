package proxy

import (
	"testing"

	"go.uber.org/goleak"
)

// perTransport runs test for each way in which HTTP/1 requests reach the backend.
func perTransport(t *testing.T, test func(t *testing.T, transport Transport)) {
	t.Helper()
	for _, transport := range TransportValues() {
		t.Run(transport.String(), func(t *testing.T) { test(t, transport) })
	}
}

// over changes a rig's settings to transport.
func over(transport Transport) func(*Settings, *GateSettings) {
	return func(s *Settings, _ *GateSettings) { s.Transport = transport }
}

// lingering is how net/http's server gives a client half a second to read the end of a connection that it closes.
var lingering = goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")

// settles fails the test if a goroutine that was not there at the beginning is there after everything that was cleaned up. Call it first, and not in a parallel test.
func settles(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before, lingering) })
}

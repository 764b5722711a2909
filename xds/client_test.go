package xds

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// patience is how long an answer may take.
const patience = 5 * time.Second

// told is an answer of the server, in either form of the protocol.
type told struct {
	typeURL, nonce, version string
	// versions are those of the resources in a delta answer.
	versions  map[string]string
	resources map[string]proto.Message
	gone      []string
}

func (a told) names() []string { return slices.Sorted(maps.Keys(a.resources)) }

// talk is a hand-held ADS client on one stream.
type talk interface {
	// ask subscribes to names, none being all, on a stream that has nothing of that type yet, as if the client knew these versions; nonce may be of another life.
	ask(typeURL, version, nonce string, names ...string)
	// change subscribes and unsubscribes on a stream; last is the last answer of that type.
	change(last told, more, fewer []string)
	ack(last told)
	nack(last told, reason string)
	// next waits for an answer.
	next() told
	// ended waits for the end of the stream.
	ended() error
	// fence is the last answer of the type that only [silent] asks for.
	fence() *told
}

// forms are the two forms of the protocol.
var forms = map[string]func(*testing.T, string) talk{"state of the world": newStates, "delta": newChanges}

// inBothForms runs a test for either form.
func inBothForms(t *testing.T, test func(*testing.T, func(t *testing.T, at string) talk)) {
	t.Helper()
	for name, form := range forms {
		t.Run(name, func(t *testing.T) { test(t, form) })
	}
}

func dial(t *testing.T, at string) (context.Context, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})

	return ctx, discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

// listening waits for answers beside the test, so that a missing one is a failure and no hang.
type listening struct {
	t       *testing.T
	answers chan told
	end     chan error
	fenced  *told
}

func listen[M any](t *testing.T, receive func() (M, error), read func(M) told) listening {
	t.Helper()
	l := listening{t, make(chan told, 10000), make(chan error, 1), &told{}}
	go func() {
		for {
			message, err := receive()
			if err != nil {
				l.end <- err

				return
			}
			l.answers <- read(message)
		}
	}()

	return l
}

func (l listening) next() told {
	l.t.Helper()
	select {
	case answer := <-l.answers:
		return answer
	case err := <-l.end:
		l.t.Fatalf("the stream ended: %v", err)
	case <-time.After(patience):
		l.t.Fatal("no answer")
	}

	return told{}
}

func (l listening) fence() *told { return l.fenced }

func (l listening) ended() error {
	l.t.Helper()
	select {
	case err := <-l.end:
		return err
	case <-time.After(patience):
		l.t.Fatal("the stream does not end")

		return nil
	}
}

// states speaks the form in which each answer is the state of the world.
type states struct {
	listening

	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	names  map[string][]string // subscribed, by type
}

func newStates(t *testing.T, at string) talk {
	ctx, client := dial(t, at)
	stream, err := client.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}

	return &states{listen(t, stream.Recv, func(m *discoveryv3.DiscoveryResponse) told {
		answer := told{typeURL: m.GetTypeUrl(), nonce: m.GetNonce(), version: m.GetVersionInfo(), resources: map[string]proto.Message{}}
		for _, body := range m.GetResources() {
			if message, err := body.UnmarshalNew(); err == nil {
				answer.resources[cachev3.GetResourceName(message)] = message
			}
		}

		return answer
	}), stream, map[string][]string{}}
}

func (s *states) send(request *discoveryv3.DiscoveryRequest) {
	s.t.Helper()
	request.ResourceNames = s.names[request.GetTypeUrl()]
	if err := s.stream.Send(request); err != nil {
		s.t.Fatal(err)
	}
}

func (s *states) ask(typeURL, version, nonce string, names ...string) {
	s.t.Helper()
	s.names[typeURL] = names
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: version, ResponseNonce: nonce})
}

func (s *states) change(last told, more, fewer []string) {
	s.t.Helper()
	left := slices.DeleteFunc(slices.Concat(s.names[last.typeURL], more), func(name string) bool { return slices.Contains(fewer, name) })
	s.names[last.typeURL] = left
	s.ack(last)
}

func (s *states) ack(last told) {
	s.t.Helper()
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: last.typeURL, VersionInfo: last.version, ResponseNonce: last.nonce})
}

func (s *states) nack(last told, reason string) {
	s.t.Helper()
	s.send(&discoveryv3.DiscoveryRequest{TypeUrl: last.typeURL, ResponseNonce: last.nonce, ErrorDetail: &statusv3.Status{Message: reason}})
}

// changes speaks the form in which each answer is a change.
type changes struct {
	listening

	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func newChanges(t *testing.T, at string) talk {
	ctx, client := dial(t, at)
	stream, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}

	return &changes{listen(t, stream.Recv, func(m *discoveryv3.DeltaDiscoveryResponse) told {
		answer := told{
			typeURL: m.GetTypeUrl(), nonce: m.GetNonce(), version: m.GetSystemVersionInfo(), gone: m.GetRemovedResources(),
			resources: map[string]proto.Message{}, versions: map[string]string{},
		}
		for _, one := range m.GetResources() {
			if message, err := one.GetResource().UnmarshalNew(); err == nil {
				answer.resources[one.GetName()] = message
				answer.versions[one.GetName()] = one.GetVersion()
			}
		}

		return answer
	}), stream}
}

func (c *changes) send(request *discoveryv3.DeltaDiscoveryRequest) {
	c.t.Helper()
	if err := c.stream.Send(request); err != nil {
		c.t.Fatal(err)
	}
}

func (c *changes) ask(typeURL, version, nonce string, names ...string) {
	c.t.Helper()
	request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: nonce, ResourceNamesSubscribe: names}
	if version != "" {
		request.InitialResourceVersions = map[string]string{}
		for _, name := range names {
			request.InitialResourceVersions[name] = version
		}
	}
	c.send(request)
}

func (c *changes) change(last told, more, fewer []string) {
	c.t.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: last.typeURL, ResourceNamesSubscribe: more, ResourceNamesUnsubscribe: fewer})
}

func (c *changes) ack(last told) {
	c.t.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: last.typeURL, ResponseNonce: last.nonce})
}

func (c *changes) nack(last told, reason string) {
	c.t.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: last.typeURL, ResponseNonce: last.nonce, ErrorDetail: &statusv3.Status{Message: reason}})
}

// silent checks that nothing but answers to other questions comes: what was said before is through once they are answered.
func silent(t *testing.T, to talk) {
	t.Helper()
	last := to.fence()
	if last.typeURL == "" {
		to.ask(resourcev3.SecretType, "", "", "fence")
		*last = to.next()
	}
	for range 20 {
		to.change(*last, nil, []string{"fence"})
		to.change(*last, []string{"fence"}, nil)
		if *last = to.next(); last.typeURL != resourcev3.SecretType {
			t.Fatalf("an answer that nobody asked for: %+v", *last)
		}
	}
}

// serveStore serves a store at loopback until the test ends.
func serveStore(t *testing.T, s *store, v *visitors) string {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := newServer(ctx, s, v, nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		cancel()
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})

	return listener.Addr().String()
}

package xds

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/delta/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxStreams bounds the open streams: a pod has one Envoy, and a gRPC client has one for all its channels.
	maxStreams = 256
	// maxReason bounds what is logged of the reason that a client gives, in bytes.
	maxReason = 1000
)

// visitors counts the open streams and what they refuse.
type visitors struct {
	logger *slog.Logger

	mu      sync.Mutex
	streams int
	refused map[string]uint64 // by type of resource
	logged  map[string]string // by type of resource, the version whose refusal was logged last
	version func(typeURL string) string
}

func newVisitors(logger *slog.Logger, version func(string) string) *visitors {
	v := &visitors{logger: logger, refused: map[string]uint64{}, logged: map[string]string{}, version: version}
	for _, typeURL := range order {
		v.refused[typeURL] = 0
	}

	return v
}

// OnStreamOpen implements [sotw.Callbacks].
func (v *visitors) OnStreamOpen(context.Context, int64, string) error { return v.open() }

// OnStreamClosed implements [sotw.Callbacks].
func (v *visitors) OnStreamClosed(int64, *corev3.Node) { v.close() }

// OnStreamRequest implements [sotw.Callbacks].
func (v *visitors) OnStreamRequest(_ int64, said *discoveryv3.DiscoveryRequest) error {
	v.hear(said.GetTypeUrl(), said.GetNode(), said.GetErrorDetail())

	return nil
}

// OnStreamResponse implements [sotw.Callbacks].
func (v *visitors) OnStreamResponse(context.Context, int64, *discoveryv3.DiscoveryRequest, *discoveryv3.DiscoveryResponse) {
}

// OnDeltaStreamOpen implements [delta.Callbacks].
func (v *visitors) OnDeltaStreamOpen(context.Context, int64, string) error { return v.open() }

// OnDeltaStreamClosed implements [delta.Callbacks].
func (v *visitors) OnDeltaStreamClosed(int64, *corev3.Node) { v.close() }

// OnStreamDeltaRequest implements [delta.Callbacks].
func (v *visitors) OnStreamDeltaRequest(_ int64, said *discoveryv3.DeltaDiscoveryRequest) error {
	v.hear(said.GetTypeUrl(), said.GetNode(), said.GetErrorDetail())

	return nil
}

// OnStreamDeltaResponse implements [delta.Callbacks].
func (v *visitors) OnStreamDeltaResponse(int64, *discoveryv3.DeltaDiscoveryRequest, *discoveryv3.DeltaDiscoveryResponse) {
}

func (v *visitors) open() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.streams++ // it is closed even if it is refused
	if v.streams > maxStreams {
		return status.Errorf(codes.ResourceExhausted, "%d streams are open, which is the limit", maxStreams)
	}

	return nil
}

func (v *visitors) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.streams--
}

// hear takes what a client says to an answer. A refusal is logged once for each version, however many clients refuse it.
func (v *visitors) hear(typeURL string, node *corev3.Node, refusal *statusv3.Status) {
	if refusal == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ours := v.refused[typeURL]; !ours {
		return // there is nothing in an answer of another type
	}
	v.refused[typeURL]++
	version := v.version(typeURL)
	if v.logged[typeURL] == version {
		return
	}
	v.logged[typeURL] = version
	v.logger.Error("an xDS client refused what it was sent, and goes on with what it had",
		"resource", kind(typeURL), "client", clip(node.GetId()), "reason", clip(refusal.GetMessage()), "version", version)
}

// counts are the open streams, and the refusals by kind of resource.
func (v *visitors) counts() (streams int, refused map[string]uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	refused = make(map[string]uint64, len(v.refused))
	for typeURL, n := range maps.All(v.refused) {
		refused[kind(typeURL)] = n
	}

	return v.streams, refused
}

// kind is the word for a type of resource.
func kind(typeURL string) string {
	switch typeURL {
	case resourcev3.ClusterType:
		return "cluster"
	case resourcev3.EndpointType:
		return "endpoint"
	case resourcev3.ListenerType:
		return "listener"
	case resourcev3.RouteType:
		return "route"
	default:
		return typeURL
	}
}

func clip(text string) string {
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}

	return text
}

var (
	_ sotw.Callbacks  = (*visitors)(nil)
	_ delta.Callbacks = (*visitors)(nil)
)

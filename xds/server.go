package xds

import (
	"context"
	"crypto/tls"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/config"
	"github.com/envoyproxy/go-control-plane/pkg/server/delta/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxSaid bounds a message from a client, in bytes. The longest are refusals, with their reason.
	maxSaid = 1 << 20
	// quietStream is how long a connection may be silent before its client is asked whether it is still there, and pingPatience how long it has to answer.
	quietStream  = 30 * time.Second
	pingPatience = 5 * time.Second
	// pingsApart is the least time between pings of a client.
	pingsApart = 5 * time.Second
	// handshake bounds the beginning of a connection.
	handshake = 10 * time.Second
)

// newServer answers from the store until ctx ends; encryption may be nil.
func newServer(ctx context.Context, store *store, visitors *visitors, encryption *tls.Config) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxSaid),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quietStream, Timeout: pingPatience}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}
	if encryption != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(encryption)))
	}
	server := grpc.NewServer(options...)
	rules := []config.XDSOption{
		// As xDS has it, only listeners and clusters are all meant where none is named. A gRPC client that names no endpoints wants none.
		config.DeactivateLegacyWildcardForTypes([]string{resourcev3.EndpointType, resourcev3.RouteType}),
	}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &aggregate{
		states:  sotw.NewServer(ctx, store, visitors, rules...),
		changes: delta.NewServer(ctx, store, visitors, rules...),
	})

	return server
}

// aggregate puts both forms of the protocol behind one service.
type aggregate struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	states  sotw.Server
	changes delta.Server
}

// StreamAggregatedResources implements [discoveryv3.AggregatedDiscoveryServiceServer].
func (a *aggregate) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return a.states.StreamHandler(stream, resourcev3.AnyType)
}

// DeltaAggregatedResources implements [discoveryv3.AggregatedDiscoveryServiceServer].
func (a *aggregate) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return a.changes.DeltaStreamHandler(stream, resourcev3.AnyType)
}

var _ discoveryv3.AggregatedDiscoveryServiceServer = (*aggregate)(nil)

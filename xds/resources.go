package xds

import (
	"fmt"
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Name is what the listener for gRPC clients (who dial xds:///pilotlight), the route, the cluster and its endpoints are called.
const Name = "pilotlight"

// SocketListener is the listener with a port, for Envoy.
const SocketListener = "pilotlight-socket"

const (
	httpOptions      = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	connectTimeout   = time.Second
	kibibyte         = 1 << 10
	mostEnvoyHeadKiB = 8192
)

// Limits are those of the data port, for Envoy to have no lower ones. 0 means no limit.
type Limits struct {
	// Connections is the most connections to the data port.
	Connections int
	// Requests is the most requests that are in flight or held at once.
	Requests int
	// HeaderBytes and Headers bound the head of a request.
	HeaderBytes units.Size
	Headers     int
}

// listeners are the one that gRPC clients ask for by its name, and the one with a port.
func listeners(c EnvoyConfig, limits Limits, families Families) (api, socket *listenerv3.Listener, err error) {
	manager, err := connectionManager(limits)
	if err != nil {
		return nil, nil, err
	}
	api = &listenerv3.Listener{Name: Name, ApiListener: &listenerv3.ApiListener{ApiListener: manager}}
	if c.Listen.IsZero() {
		return api, nil, nil
	}
	at, err := bound(c.Listen, families)
	if err != nil {
		return nil, nil, fmt.Errorf("xds.envoy.listen: %w", err)
	}

	return api, &listenerv3.Listener{
		Name:    SocketListener,
		Address: at.proto(),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
		}}}},
	}, nil
}

// connectionManager leaves every clock and limit to the data port: Envoy's own defaults would end a quiet stream after five minutes and refuse a head that we take.
func connectionManager(limits Limits) (*anypb.Any, error) {
	router, err := anypb.New(&routerv3.Router{})
	if err != nil {
		return nil, fmt.Errorf("write router: %w", err)
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: Name,
		CodecType:  hcmv3.HttpConnectionManager_AUTO,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: Name,
			ConfigSource:    aggregated(),
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
		}},
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		StreamIdleTimeout:          durationpb.New(0),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		CommonHttpProtocolOptions:  &corev3.HttpProtocolOptions{},
	}
	if limits.Headers > 0 {
		manager.CommonHttpProtocolOptions.MaxHeadersCount = number(limits.Headers)
	}
	if limits.HeaderBytes > 0 {
		kib := (int64(limits.HeaderBytes) + kibibyte - 1) / kibibyte
		manager.MaxRequestHeadersKb = number(int(min(kib, mostEnvoyHeadKiB)))
	}

	return packed(manager)
}

// routes send everything to the one cluster. Envoy would give up after 15 s without a timeout of 0.
func routes() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: Name,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    Name,
			Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: Name},
					Timeout:          durationpb.New(0),
				}},
			}},
		}},
	}
}

// cluster is how to call the data port.
func cluster(c EnvoyConfig, limits Limits) (*clusterv3.Cluster, error) {
	options, err := packed(&httpv3.HttpProtocolOptions{
		// What came by HTTP/2 goes on by HTTP/2, which gRPC needs, and what came by HTTP/1.1 goes on by that.
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	made := &clusterv3.Cluster{
		Name:                 Name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: aggregated()},
		ConnectTimeout:       durationpb.New(connectTimeout),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
			thresholds(corev3.RoutingPriority_DEFAULT, limits), thresholds(corev3.RoutingPriority_HIGH, limits),
		}},
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{
			// It must be said even when it is 0.
			HealthyPanicThreshold: &typev3.Percent{Value: float64(c.PanicThreshold)},
		},
		OutlierDetection:              outlierDetection(c.OutlierDetection),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptions: options},
	}
	if c.SlowStart > 0 {
		made.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{
			SlowStartConfig: &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: durationpb.New(c.SlowStart.Std())},
		}}
	}

	return made, nil
}

// thresholds are never lower than our own: a request that Pilotlight would hold, or refuse with the time to come back, must reach it.
func thresholds(priority corev3.RoutingPriority, limits Limits) *clusterv3.CircuitBreakers_Thresholds {
	return &clusterv3.CircuitBreakers_Thresholds{
		Priority:           priority,
		MaxConnections:     limit(limits.Connections),
		MaxPendingRequests: limit(limits.Requests),
		MaxRequests:        limit(limits.Requests),
		TrackRemaining:     true,
	}
}

// outlierDetection enforces what was asked for and nothing else: left out, each rule has a default of its own.
func outlierDetection(c OutlierDetectionConfig) *clusterv3.OutlierDetection {
	if !c.detects() {
		return nil
	}
	made := &clusterv3.OutlierDetection{
		EnforcingConsecutive_5Xx:           number(0),
		EnforcingConsecutiveGatewayFailure: number(0),
		EnforcingSuccessRate:               number(0),
		Interval:                           durationpb.New(c.Interval.Std()),
		BaseEjectionTime:                   durationpb.New(c.BaseEjectionTime.Std()),
		MaxEjectionPercent:                 number(c.MaxEjectionPercent),
	}
	const always = 100
	if c.Consecutive5xx > 0 {
		made.Consecutive_5Xx, made.EnforcingConsecutive_5Xx = number(c.Consecutive5xx), number(always)
	}
	if c.ConsecutiveGatewayErrors > 0 {
		made.ConsecutiveGatewayFailure, made.EnforcingConsecutiveGatewayFailure = number(c.ConsecutiveGatewayErrors), number(always)
	}

	return made
}

// assignment is where the data port is. A locality and weights are there always: without them gRPC clients refuse it, or send nothing.
func assignment(at spot, status corev3.HealthStatus, shown bool) *endpointv3.ClusterLoadAssignment {
	made := &endpointv3.ClusterLoadAssignment{ClusterName: Name}
	if shown {
		made.Endpoints = []*endpointv3.LocalityLbEndpoints{{
			Locality:            &corev3.Locality{SubZone: "pod"},
			LoadBalancingWeight: number(1),
			LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: at.proto()}},
				HealthStatus:        status,
				LoadBalancingWeight: number(1),
			}},
		}}
	}

	return made
}

// aggregated points back to the stream on which a resource came. gRPC clients take no other source.
func aggregated() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

func packed(message proto.Message) (*anypb.Any, error) {
	made := &anypb.Any{}
	// The same resource must be the same bytes, or it would be sent again and again.
	if err := anypb.MarshalFrom(made, message, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("write %s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}

	return made, nil
}

func number(n int) *wrapperspb.UInt32Value {
	return wrapperspb.UInt32(uint32(min(max(n, 0), math.MaxUint32)))
}

// limit writes a limit of which 0 means that there is none; to Envoy and gRPC it would mean that nothing passes.
func limit(n int) *wrapperspb.UInt32Value {
	if n <= 0 {
		return number(math.MaxUint32)
	}

	return number(n)
}

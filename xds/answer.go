package xds

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
)

// answer is a state of the world for one stream. It is written when it is sent, since the server numbers it.
type answer struct {
	asked *discoveryv3.DiscoveryRequest
	shelf shelf
	owed  map[string]string
}

// GetDiscoveryResponse implements [cachev3.Response].
func (a *answer) GetDiscoveryResponse() (*discoveryv3.DiscoveryResponse, error) {
	return &discoveryv3.DiscoveryResponse{
		VersionInfo: a.shelf.version,
		TypeUrl:     a.asked.GetTypeUrl(),
		Resources:   a.shelf.whole(a.owed),
	}, nil
}

// GetRequest implements [cachev3.Response].
func (a *answer) GetRequest() *discoveryv3.DiscoveryRequest { return a.asked }

// GetVersion implements [cachev3.Response].
func (a *answer) GetVersion() (string, error) { return a.shelf.version, nil }

// GetResponseVersion implements [cachev3.Response].
func (a *answer) GetResponseVersion() string { return a.shelf.version }

// GetReturnedResources implements [cachev3.Response].
func (a *answer) GetReturnedResources() map[string]string { return a.owed }

// GetContext implements [cachev3.Response].
func (a *answer) GetContext() context.Context { return context.Background() }

// deltaAnswer is a change for one stream.
type deltaAnswer struct {
	asked         *discoveryv3.DeltaDiscoveryRequest
	shelf         shelf
	owed          map[string]string
	changed, gone []string
}

// GetDeltaDiscoveryResponse implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetDeltaDiscoveryResponse() (*discoveryv3.DeltaDiscoveryResponse, error) {
	resources := make([]*discoveryv3.Resource, 0, len(a.changed))
	for _, name := range a.changed {
		one := a.shelf.entries[name]
		resources = append(resources, &discoveryv3.Resource{Name: name, Version: one.version, Resource: one.body})
	}

	return &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: a.shelf.version,
		TypeUrl:           a.asked.GetTypeUrl(),
		Resources:         resources,
		RemovedResources:  a.gone,
	}, nil
}

// GetDeltaRequest implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetDeltaRequest() *discoveryv3.DeltaDiscoveryRequest { return a.asked }

// GetSystemVersion implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetSystemVersion() (string, error) { return a.shelf.version, nil }

// GetResponseVersion implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetResponseVersion() string { return a.shelf.version }

// GetNextVersionMap implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetNextVersionMap() map[string]string { return a.owed }

// GetReturnedResources implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetReturnedResources() map[string]string { return a.owed }

// GetContext implements [cachev3.DeltaResponse].
func (a *deltaAnswer) GetContext() context.Context { return context.Background() }

var (
	_ cachev3.Response      = (*answer)(nil)
	_ cachev3.DeltaResponse = (*deltaAnswer)(nil)
)

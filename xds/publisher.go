package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Settings is what a Publisher is made of.
type Settings struct {
	Envoy    EnvoyConfig
	Limits   Limits
	Promises Promises
	Families Families
	// Data is where the data port listens. With port 0 nothing is shown before [Publisher.Point].
	Data units.Listen
	// TLS is the server's side of TLS; nil: none.
	TLS *tls.Config
	// Logger gets a line for each version of a resource that a client refuses. nil is silent.
	Logger *slog.Logger
}

// Publisher is an aggregated discovery server, of full states and of changes, whose only endpoint is our data port. All methods may be called concurrently.
type Publisher struct {
	settings Settings
	store    *store
	visitors *visitors

	mu       sync.Mutex
	state    health.State
	limits   Limits
	promises Promises
	data     units.Listen
}

// New returns a publisher for a pod that is starting. It fails when an address cannot be written into a resource.
func New(settings Settings) (*Publisher, error) {
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}
	store := newStore()
	p := &Publisher{
		settings: settings, store: store, visitors: newVisitors(settings.Logger, store.version),
		limits: settings.Limits, promises: settings.Promises, data: settings.Data,
	}

	return p, p.publish()
}

// Point says where the data port really listens.
func (p *Publisher) Point(data units.Listen) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = data

	return p.publish()
}

// Follow shows the endpoint as the state wants it.
func (p *Publisher) Follow(state health.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	p.republish()
}

// Configure changes what a reload of the configuration may change.
func (p *Publisher) Configure(limits Limits, promises Promises) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits, p.promises = limits, promises
	p.republish()
}

// Counts are the open streams, and how often clients have refused what they were sent, by kind of resource: cluster, endpoint, listener, route.
func (p *Publisher) Counts() (streams int, refused map[string]uint64) { return p.visitors.counts() }

// Serve answers at the listener, which it closes, until ctx ends.
func (p *Publisher) Serve(ctx context.Context, listener net.Listener) error {
	server := newServer(ctx, p.store, p.visitors, p.settings.TLS)
	defer server.Stop() // a second one does nothing but wait for the first
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serve xDS at %s: %w", listener.Addr(), err)
	}

	return nil
}

// republish publishes what differs from what could be written before by no address, so that it can be written too. The lock is held.
func (p *Publisher) republish() {
	if err := p.publish(); err != nil {
		p.settings.Logger.Error("the xDS resources could not be renewed", "error", err)
	}
}

// publish puts the resources together and serves them. The lock is held, or nobody else knows p yet.
func (p *Publisher) publish() error {
	items, err := p.resources()
	if err != nil {
		return err
	}

	return p.store.put(items)
}

func (p *Publisher) resources() (map[string][]item, error) {
	api, socket, err := listeners(p.settings.Envoy, p.limits, p.settings.Families)
	if err != nil {
		return nil, err
	}
	cluster, err := cluster(p.settings.Envoy, p.limits)
	if err != nil {
		return nil, err
	}
	at, err := reached(p.data, p.settings.Families)
	if err != nil {
		return nil, fmt.Errorf("listen.data: %w", err)
	}
	status, shown := p.promises.presence(p.state)
	listening := at.path != "" || at.port != 0
	items := map[string][]item{
		resourcev3.ListenerType: {{Resource: api, named: true}},
		resourcev3.RouteType:    {{Resource: routes()}},
		resourcev3.ClusterType:  {{Resource: cluster}},
		resourcev3.EndpointType: {{Resource: assignment(at, status, shown && listening)}},
	}
	if socket != nil {
		items[resourcev3.ListenerType] = append(items[resourcev3.ListenerType], item{Resource: socket})
	}

	return items, nil
}

package xds

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

var (
	both = Families{IPv4: true, IPv6: true}
	data = units.Listen{Network: "tcp", Host: ":9000"}
)

func newPublisher(t *testing.T, change func(*Settings)) *Publisher {
	t.Helper()
	settings := Settings{Envoy: DefaultEnvoy(), Promises: Promises{HoldsWhileWarming: true}, Families: both, Data: data}
	if change != nil {
		change(&settings)
	}
	p, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

// serve serves a publisher at loopback until the test ends.
func serve(t *testing.T, p *Publisher) string {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	return listener.Addr().String()
}

// TestTheEndpointFollowsTheState holds the column "own EDS" of the table of states.
func TestTheEndpointFollowsTheState(t *testing.T) {
	t.Parallel()
	const gone = "gone"
	for _, row := range []struct {
		state                         health.State
		held, omitted, unhealthyHolds string
	}{
		{health.Starting, "HEALTHY", gone, "HEALTHY"},
		{health.Idle, "HEALTHY", "HEALTHY", "HEALTHY"},
		{health.Warming, "HEALTHY", gone, "HEALTHY"},
		{health.Ready, "HEALTHY", "HEALTHY", "HEALTHY"},
		{health.Degraded, "HEALTHY", "HEALTHY", "HEALTHY"},
		{health.Unhealthy, "UNHEALTHY", "UNHEALTHY", "HEALTHY"},
		{health.Cold, "HEALTHY", gone, "HEALTHY"},
		{health.Draining, "DRAINING", "DRAINING", "DRAINING"},
		{health.Stopped, gone, gone, gone},
	} {
		for promises, want := range map[Promises]string{
			{HoldsWhileWarming: true}: row.held,
			{}:                        row.omitted,
			{HoldsWhileWarming: true, HoldsWhileUnhealthy: true}: row.unhealthyHolds,
		} {
			status, shown := promises.presence(row.state)
			got := status.String()
			if !shown {
				got = gone
			}
			if got != want {
				t.Errorf("%s, %+v: got %s, want %s", row.state, promises, got, want)
			}
		}
	}
	if rows := len(health.StateValues()); rows != 9 {
		t.Errorf("there are %d states", rows)
	}
}

// shownTo is the health of our endpoint in an answer; empty if there is none.
func shownTo(t *testing.T, answer told) string {
	t.Helper()
	assignment, ok := answer.resources[Name].(*endpointv3.ClusterLoadAssignment)
	if !ok {
		t.Fatalf("no endpoints in %+v", answer)
	}
	if len(assignment.GetEndpoints()) == 0 {
		return ""
	}
	if locality := assignment.GetEndpoints()[0]; locality.GetLocality() == nil || locality.GetLoadBalancingWeight().GetValue() == 0 || locality.GetLbEndpoints()[0].GetLoadBalancingWeight().GetValue() == 0 {
		t.Errorf("locality or weight is missing: %v", locality)
	}

	return assignment.GetEndpoints()[0].GetLbEndpoints()[0].GetHealthStatus().String()
}

// TestC54EveryChangeOfTheEndpointIsDelivered goes through a life, and back to what was before: an endpoint that comes back is delivered too.
func TestC54EveryChangeOfTheEndpointIsDelivered(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		p := newPublisher(t, func(s *Settings) { s.Promises = Promises{} })
		client := talkTo(t, serve(t, p))
		client.ask(resourcev3.EndpointType, "", "", Name)
		answer := client.next()
		if got := shownTo(t, answer); got != "" {
			t.Errorf("starting: got %s", got)
		}
		for _, step := range []struct {
			state health.State
			want  string
		}{
			{health.Ready, "HEALTHY"},
			{health.Unhealthy, "UNHEALTHY"},
			{health.Degraded, "HEALTHY"},
			{health.Cold, ""},
			{health.Ready, "HEALTHY"},
			{health.Draining, "DRAINING"},
			{health.Stopped, ""},
		} {
			client.ack(answer)
			p.Follow(step.state)
			answer = client.next()
			if got := shownTo(t, answer); got != step.want {
				t.Errorf("%s: got %q, want %q", step.state, got, step.want)
			}
		}
		client.ack(answer)
		p.Follow(health.Stopped)
		silent(t, client)
	})
}

func TestEnvoyIsNotGivenTheListenerForGRPCClients(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		at := serve(t, newPublisher(t, nil))
		for _, row := range []struct{ asked, want []string }{{nil, []string{SocketListener}}, {[]string{Name}, []string{Name}}} {
			client := talkTo(t, at)
			client.ask(resourcev3.ListenerType, "", "", row.asked...)
			if got := client.next().names(); !slices.Equal(got, row.want) {
				t.Errorf("asked for %q: got %q", row.asked, got)
			}
		}
	})
}

// TestC73NoAddressOfAnAbsentIPVersion looks at everything that is served, and at the bootstraps.
func TestC73NoAddressOfAnAbsentIPVersion(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		families         Families
		absent, expected []string
	}{
		"IPv6 only": {Families{IPv6: true}, []string{"127.0.0.1", "0.0.0.0"}, []string{`"::1"`, `"::"`}},
		"IPv4 only": {Families{IPv4: true}, []string{"::"}, []string{`"127.0.0.1"`, `"0.0.0.0"`}},
		"both":      {both, nil, []string{`"127.0.0.1"`, `"::"`, `"ipv4Compat":true`}},
	} {
		for _, listen := range []string{":9000", "localhost:9000", "[::]:9000"} {
			at, err := units.ParseListen(listen)
			if err != nil {
				t.Fatal(err)
			}
			p := newPublisher(t, func(s *Settings) { s.Families, s.Data = row.families, at })
			text := strings.ReplaceAll(everythingOf(t, p), ": ", ":")
			for _, absent := range row.absent {
				if strings.Contains(text, absent) {
					t.Errorf("%s, %s: %s in %s", name, listen, absent, text)
				}
			}
			for _, expected := range row.expected {
				if !strings.Contains(text, expected) {
					t.Errorf("%s, %s: no %s in %s", name, listen, expected, text)
				}
			}
		}
	}
}

// everythingOf is all that a publisher serves, as JSON.
func everythingOf(t *testing.T, p *Publisher) string {
	t.Helper()
	text := &strings.Builder{}
	items, err := p.resources()
	if err != nil {
		t.Fatal(err)
	}
	for _, typeURL := range order {
		for _, one := range items[typeURL] {
			// Envoy holds what it is sent to the same rules.
			if checked, ok := one.Resource.(interface{ ValidateAll() error }); !ok || checked.ValidateAll() != nil {
				t.Errorf("%s is not valid: %v", typeURL, checked)
			}
			body, err := protojson.Marshal(one.Resource)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(body)
		}
	}

	return text.String()
}

func TestLimitsAreThoseOfTheDataPort(t *testing.T) {
	t.Parallel()
	const none = 1<<32 - 1
	for name, row := range map[string]struct {
		limits                Limits
		connections, requests uint32
	}{
		"limited":   {Limits{Connections: 20, Requests: 7}, 20, 7},
		"unlimited": {Limits{}, none, none},
	} {
		p := newPublisher(t, nil)
		p.Configure(row.limits, Promises{})
		items, err := p.resources()
		if err != nil {
			t.Fatal(err)
		}
		made, ok := items[resourcev3.ClusterType][0].Resource.(*clusterv3.Cluster)
		if !ok {
			t.Fatal("no cluster")
		}
		if made.GetCommonLbConfig().GetHealthyPanicThreshold() == nil || made.GetCommonLbConfig().GetHealthyPanicThreshold().GetValue() != 0 {
			t.Errorf("%s: panic threshold: %v", name, made.GetCommonLbConfig())
		}
		priorities := []corev3.RoutingPriority{}
		for _, one := range made.GetCircuitBreakers().GetThresholds() {
			priorities = append(priorities, one.GetPriority())
			if one.GetMaxConnections().GetValue() != row.connections || one.GetMaxRequests().GetValue() != row.requests || one.GetMaxPendingRequests().GetValue() != row.requests {
				t.Errorf("%s: got %v", name, one)
			}
		}
		if len(priorities) != 2 {
			t.Errorf("%s: thresholds for %v", name, priorities)
		}
	}
}

func TestOutlierDetectionEnforcesOnlyWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	c := DefaultEnvoy()
	if made := outlierDetection(c.OutlierDetection); made != nil {
		t.Errorf("by default: got %v", made)
	}
	c.OutlierDetection.Consecutive5xx = 3
	made := outlierDetection(c.OutlierDetection)
	if made.GetConsecutive_5Xx().GetValue() != 3 || made.GetEnforcingConsecutive_5Xx().GetValue() != 100 ||
		made.GetEnforcingConsecutiveGatewayFailure().GetValue() != 0 || made.GetEnforcingSuccessRate().GetValue() != 0 {
		t.Errorf("got %v", made)
	}
}

func TestANameCannotBeWrittenIntoAResource(t *testing.T) {
	t.Parallel()
	_, err := New(Settings{Envoy: DefaultEnvoy(), Families: both, Data: units.Listen{Network: "tcp", Host: "pod.local:9000"}})
	if err == nil || !strings.Contains(err.Error(), "listen.data: write pod.local:9000") {
		t.Errorf("got %v", err)
	}
}

func TestAPortThatIsNotKnownYetIsNotShown(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, func(s *Settings) { s.Data = units.Listen{Network: "tcp", Host: ":0"} })
	if text := everythingOf(t, p); strings.Contains(text, "lbEndpoints") {
		t.Errorf("got %s", text)
	}
	if err := p.Point(data); err != nil {
		t.Fatal(err)
	}
	if text := everythingOf(t, p); !strings.Contains(text, "lbEndpoints") {
		t.Errorf("got %s", text)
	}
}

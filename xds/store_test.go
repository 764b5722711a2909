package xds

import (
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// some are clusters of these names, each with as many endpoints.
func some(endpoints int, names ...string) map[string][]item {
	items := map[string][]item{}
	for _, name := range names {
		items[resourcev3.ClusterType] = append(items[resourcev3.ClusterType], item{Resource: &clusterv3.Cluster{
			Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: aggregated()},
		}})
		items[resourcev3.EndpointType] = append(items[resourcev3.EndpointType], item{Resource: &endpointv3.ClusterLoadAssignment{
			ClusterName: name, Endpoints: slices.Repeat([]*endpointv3.LocalityLbEndpoints{{}}, endpoints),
		}})
	}

	return items
}

func mustPut(t *testing.T, s *store, items map[string][]item) {
	t.Helper()
	if err := s.put(items); err != nil {
		t.Fatal(err)
	}
}

// stocked is a store that is served.
func stocked(t *testing.T, items map[string][]item) (*store, *visitors, string) {
	t.Helper()
	s := newStore()
	mustPut(t, s, items)
	v := newVisitors(slog.New(slog.DiscardHandler), s.version)

	return s, v, serveStore(t, s, v)
}

func TestC50EndpointsAreAnsweredForTheNamesAskedThoughThereAreMoreByNow(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		s, _, at := stocked(t, some(1, "first"))
		client := talkTo(t, at)
		client.ask(resourcev3.ClusterType, "", "")
		clusters := client.next()
		mustPut(t, s, some(1, "first", "second"))
		client.ack(clusters)
		client.ask(resourcev3.EndpointType, "", "", clusters.names()...)
		seen := map[string][]string{}
		for len(seen) < 2 { // the other is the second cluster
			answer := client.next()
			seen[answer.typeURL] = answer.names()
			client.ack(answer)
		}
		if !slices.Equal(seen[resourcev3.EndpointType], []string{"first"}) {
			t.Errorf("endpoints for the names asked: got %v", seen)
		}
		silent(t, client)
	})
}

func TestC53AClientOfAnEarlierLifeGetsAFullAnswer(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		s, _, at := stocked(t, some(1, "live"))
		for _, version := range []string{"7", s.version(resourcev3.EndpointType)} { // one that we never had, and the very one that we have
			client := talkTo(t, at)
			client.ask(resourcev3.EndpointType, version, "abc", "live", "deleted")
			answer := client.next()
			if !slices.Equal(answer.names(), []string{"live"}) {
				t.Errorf("version %s: got %v", version, answer.names())
			}
			if answer.versions != nil && !slices.Equal(answer.gone, []string{"deleted"}) {
				t.Errorf("version %s: gone are %v", version, answer.gone)
			}
			client.ack(answer)
			silent(t, client)
		}
		client := talkTo(t, at)
		client.ask(resourcev3.EndpointType, "7", "abc", "deleted")
		answer := client.next()
		if len(answer.names()) != 0 || (answer.versions != nil && !slices.Equal(answer.gone, []string{"deleted"})) {
			t.Errorf("only what is deleted: got %+v", answer)
		}
		client.ack(answer)
		silent(t, client)
		mustPut(t, s, some(1, "live", "deleted"))
		if answer := client.next(); !slices.Equal(answer.names(), []string{"deleted"}) {
			t.Errorf("once it is there again: got %v", answer.names())
		}
	})
}

func TestARefusedVersionIsNotSentAgain(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		s, v, at := stocked(t, some(1, "live"))
		for _, acknowledged := range []int{0, 1} { // never, and before
			client := talkTo(t, at)
			client.ask(resourcev3.EndpointType, "", "", "live")
			answer := client.next()
			for range acknowledged {
				client.ack(answer)
				mustPut(t, s, some(2, "live"))
				answer = client.next()
			}
			_, before := v.counts()
			client.nack(answer, "bad")
			silent(t, client)
			if _, refused := v.counts(); refused["endpoint"] != before["endpoint"]+1 {
				t.Errorf("after %d: refusals: %d, then %d", acknowledged, before["endpoint"], refused["endpoint"])
			}
			mustPut(t, s, some(3+acknowledged, "live"))
			if answer := client.next(); !slices.Equal(answer.names(), []string{"live"}) {
				t.Errorf("the correction: got %v", answer.names())
			}
		}
	})
}

func TestWhatIsUnsubscribedAndSubscribedAgainIsAnswered(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		s, _, at := stocked(t, some(1, "one", "two"))
		client := talkTo(t, at)
		client.ask(resourcev3.EndpointType, "", "", "one", "two")
		answer := client.next()
		client.change(answer, nil, []string{"one"})
		silent(t, client)
		client.change(answer, []string{"one"}, nil)
		if answer = client.next(); !slices.Contains(answer.names(), "one") {
			t.Errorf("subscribed again: got %v", answer.names())
		}
		client.change(answer, nil, []string{"one", "two"})
		silent(t, client)
		mustPut(t, s, some(2, "one", "two")) // nobody asks for them
		silent(t, client)
	})
}

func TestEverythingIsSentToWhoAsksForEverything(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		s, _, at := stocked(t, some(1, "one"))
		for _, names := range [][]string{nil, {"*"}} {
			client := talkTo(t, at)
			client.ask(resourcev3.ClusterType, "", "", names...)
			answer := client.next()
			if !slices.Equal(answer.names(), []string{"one"}) {
				t.Errorf("asked for %q: got %v", names, answer.names())
			}
			client.ack(answer)
			silent(t, client)
			mustPut(t, s, some(1, "two"))
			if answer = client.next(); !slices.Equal(answer.names(), []string{"two"}) || (answer.versions != nil && !slices.Equal(answer.gone, []string{"one"})) {
				t.Errorf("asked for %q, after a change: got %v, gone %v", names, answer.names(), answer.gone)
			}
			mustPut(t, s, some(1, "one"))
		}
	})
}

func TestAnEmptyTypeIsAnAnswer(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		_, _, at := stocked(t, nil)
		client := talkTo(t, at)
		client.ask(resourcev3.ListenerType, "", "")
		answer := client.next()
		if len(answer.names()) != 0 {
			t.Errorf("got %v", answer.names())
		}
		client.ack(answer)
		silent(t, client)
	})
}

func TestVersionsNeverComeBack(t *testing.T) {
	t.Parallel()
	s := newStore()
	seen := map[string]int{}
	for i, endpoints := range []int{1, 0, 1} {
		mustPut(t, s, some(endpoints, "one"))
		version := s.shelves[resourcev3.EndpointType].entries["one"].version
		if before, known := seen[version]; known {
			t.Errorf("put %d has the version of put %d", i, before)
		}
		seen[version] = i
	}
	clusters, endpoints := s.version(resourcev3.ClusterType), s.version(resourcev3.EndpointType)
	mustPut(t, s, some(1, "one"))
	if clusters != s.version(resourcev3.ClusterType) || endpoints != s.version(resourcev3.EndpointType) {
		t.Error("the same again has another version")
	}
	if other := newStore(); other.epoch == s.epoch {
		t.Error("another process has the same versions")
	}
}

func TestAnInconsistentSetIsRefusedWhole(t *testing.T) {
	t.Parallel()
	s := newStore()
	mustPut(t, s, some(1, "one"))
	before := s.version(resourcev3.ClusterType)
	bad := some(1, "one", "two")
	bad[resourcev3.EndpointType] = bad[resourcev3.EndpointType][:1]
	if err := s.put(bad); err == nil {
		t.Error("a cluster without endpoints was taken")
	}
	if after := s.version(resourcev3.ClusterType); after != before {
		t.Errorf("the version went from %s to %s", before, after)
	}
}

func TestNothingIsLeftOfAStreamThatHasEnded(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		s, v, at := stocked(t, some(1, "one"))
		for range 20 {
			t.Run("", func(t *testing.T) {
				client := talkTo(t, at)
				client.ask(resourcev3.ClusterType, "", "")
				client.ack(client.next())
				silent(t, client)
				if s.waiting() == 0 {
					t.Error("nothing waits, so this proves nothing")
				}
			})
		}
		for deadline := time.Now().Add(5 * time.Second); ; {
			streams, _ := v.counts()
			if waiting := s.waiting(); streams == 0 && waiting == 0 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("%d streams and %d questions are left", streams, waiting)
			}
		}
	})
}

func TestWhatAStreamMayAskIsBounded(t *testing.T) {
	t.Parallel()
	inBothForms(t, func(t *testing.T, talkTo func(*testing.T, string) talk) {
		t.Parallel()
		_, v, at := stocked(t, nil)
		client := talkTo(t, at)
		client.ask("type.googleapis.com/nonsense", "", "", "x")
		if err := client.ended(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a type that does not exist: got %v", err)
		}
		v.mu.Lock()
		v.streams += maxStreams
		v.mu.Unlock()
		if err := talkTo(t, at).ended(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("stream %s: got %v", strconv.Itoa(maxStreams+1), err)
		}
		v.mu.Lock()
		v.streams -= maxStreams
		v.mu.Unlock()
	})
}

package xds

import (
	"maps"
	"slices"

	"github.com/envoyproxy/go-control-plane/pkg/server/stream/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// entry is a resource as it is sent.
type entry struct {
	body *anypb.Any
	// version is that of the shelf when the resource last changed. It is never used again, so that a resource that goes and comes back is not taken for the one that a client remembers.
	version string
	// named is sent only to who asks for it by its name, never to who asks for everything. Envoy warns of a listener that is meant for gRPC clients.
	named bool
}

// shelf holds the resources of one type.
type shelf struct {
	version string
	entries map[string]entry
}

const (
	// everything is the name by which all resources of a type are asked for, and under which we note that such a question was answered.
	everything = "*"
	// absent is the version of a resource that was asked for and does not exist.
	absent = "absent"
)

// subscription is what a stream has asked for of a type, and what it has been told.
type subscription interface {
	IsWildcard() bool
	SubscribedResources() map[string]struct{}
	ReturnedResources() map[string]string
}

var _ subscription = stream.Subscription{}

// owed is what a stream must have been told, by name and version. It differs from what it has been told when there is something to say.
//
// The version that a client quotes counts for nothing, only what this stream has carried: so a client that comes back with the version of an earlier process, or of none, gets a full
// answer; and one that refuses what it got, and therefore quotes the version before, is not sent the same again until something has changed.
func (s shelf) owed(to subscription) map[string]string {
	owed := make(map[string]string, len(s.entries))
	if to.IsWildcard() {
		owed[everything] = s.version
		for name, one := range s.entries {
			if !one.named {
				owed[name] = one.version
			}
		}
	}
	for name := range to.SubscribedResources() {
		if one, exists := s.entries[name]; exists {
			owed[name] = one.version
		} else {
			owed[name] = absent
		}
	}

	return owed
}

// whole is everything that a stream is owed, in the order of the names.
func (s shelf) whole(owed map[string]string) []*anypb.Any {
	bodies := make([]*anypb.Any, 0, len(owed))
	for _, name := range slices.Sorted(maps.Keys(owed)) {
		if one, exists := s.entries[name]; exists {
			bodies = append(bodies, one.body)
		}
	}

	return bodies
}

// difference is what must be sent, and what must be said to be gone, so that a stream has been told what it is owed. What is asked for anew is told again even if nothing changed:
// whoever unsubscribed has forgotten it.
func (s shelf) difference(owed, told map[string]string, anew []string, wildcard bool) (changed, gone []string) {
	again := slices.Contains(anew, everything)
	for name, version := range owed {
		switch {
		case name == everything, version == told[name] && !again && !slices.Contains(anew, name):
		case version == absent:
			gone = append(gone, name)
		default:
			changed = append(changed, name)
		}
	}
	for name := range told {
		// Of a name that is no longer asked for nobody wants to hear.
		if _, still := owed[name]; !still && wildcard && name != everything {
			gone = append(gone, name)
		}
	}
	slices.Sort(changed)
	slices.Sort(gone)

	return changed, gone
}

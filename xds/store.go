package xds

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// order is that of the types in a change: what others refer to comes first.
var order = []string{resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.RouteType}

// item is a resource that is to be served.
type item struct {
	types.Resource

	// named: see [entry].
	named bool
}

// store serves one set of resources to every client alike. It stands in for the caches of go-control-plane, and keeps nothing of a client but its open questions:
// their snapshot cache keeps an entry for each node for ever, sends what was refused again at once and without end, takes "*" for the name of a resource, and says
// nothing when asked for one that does not exist.
type store struct {
	mu      sync.Mutex
	epoch   string // differs from process to process
	edition int
	shelves map[string]shelf
	asked   map[*question]struct{}
	askedBy map[*deltaQuestion]struct{}
}

// question is one that waits for its answer to change.
type question struct {
	request *discoveryv3.DiscoveryRequest
	of      cachev3.Subscription
	to      chan cachev3.Response
}

// deltaQuestion is the same for changes.
type deltaQuestion struct {
	request *discoveryv3.DeltaDiscoveryRequest
	of      cachev3.Subscription
	to      chan cachev3.DeltaResponse
}

func newStore() *store {
	s := &store{
		epoch:   strconv.FormatInt(time.Now().UnixNano(), 36),
		shelves: map[string]shelf{},
		asked:   map[*question]struct{}{},
		askedBy: map[*deltaQuestion]struct{}{},
	}

	return s
}

// CreateWatch implements [cachev3.ConfigWatcher].
func (s *store) CreateWatch(request *discoveryv3.DiscoveryRequest, of cachev3.Subscription, to chan cachev3.Response) (func(), error) {
	if err := known(request.GetTypeUrl()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &question{request, of, to}
	if s.answer(q) {
		return func() {}, nil
	}
	s.asked[q] = struct{}{}

	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asked, q)
	}, nil
}

// CreateDeltaWatch implements [cachev3.ConfigWatcher].
func (s *store) CreateDeltaWatch(request *discoveryv3.DeltaDiscoveryRequest, of cachev3.Subscription, to chan cachev3.DeltaResponse) (func(), error) {
	if err := known(request.GetTypeUrl()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &deltaQuestion{request, of, to}
	if s.answerDelta(q, request.GetResourceNamesSubscribe()) {
		return func() {}, nil
	}
	s.askedBy[q] = struct{}{}

	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.askedBy, q)
	}, nil
}

// put replaces everything that is served, all at once or not at all, and tells those whose answer has changed.
func (s *store) put(items map[string][]item) error {
	if err := consistent(items); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version := s.epoch + "-" + strconv.Itoa(s.edition+1)
	next := make(map[string]shelf, len(items))
	for typeURL, all := range items {
		made, err := s.shelves[typeURL].restocked(all, version)
		if err != nil {
			return err
		}
		next[typeURL] = made
	}
	s.edition++
	s.shelves = next
	for _, typeURL := range order {
		s.tell(typeURL)
	}

	return nil
}

// consistent says whether all that is referred to is there, and nothing else: a client that is given less waits, and one that is given more may refuse it.
func consistent(items map[string][]item) error {
	plain := make(map[string][]types.Resource, len(items))
	for typeURL, all := range items {
		for _, one := range all {
			plain[typeURL] = append(plain[typeURL], one.Resource)
		}
	}
	snapshot, err := cachev3.NewSnapshot("", plain)
	if err == nil {
		err = snapshot.Consistent()
	}
	if err != nil {
		return fmt.Errorf("put resources together: %w", err)
	}

	return nil
}

// restocked is the shelf with other resources on it. What has not changed keeps its version.
func (s shelf) restocked(items []item, version string) (shelf, error) {
	next := shelf{version: s.version, entries: make(map[string]entry, len(items))}
	for _, one := range items {
		body, err := packed(one.Resource)
		if err != nil {
			return shelf{}, err
		}
		name := cachev3.GetResourceName(one.Resource)
		made := entry{body: body, version: version, named: one.named}
		if old, exists := s.entries[name]; exists && bytes.Equal(old.body.GetValue(), body.GetValue()) {
			made.version = old.version
		}
		next.entries[name] = made
	}
	same := func(a, b entry) bool { return a.version == b.version }
	if next.version == "" || !maps.EqualFunc(s.entries, next.entries, same) {
		next.version = version
	}

	return next, nil
}

// tell answers the questions whose answer has changed. The lock is held.
func (s *store) tell(typeURL string) {
	for one := range s.asked {
		if one.request.GetTypeUrl() == typeURL && s.answer(one) {
			delete(s.asked, one)
		}
	}
	for one := range s.askedBy {
		if one.request.GetTypeUrl() == typeURL && s.answerDelta(one, nil) {
			delete(s.askedBy, one)
		}
	}
}

// answer answers if there is something to say. The lock is held.
func (s *store) answer(q *question) bool {
	shelf := s.shelves[q.request.GetTypeUrl()]
	owed := shelf.owed(q.of)
	if maps.Equal(owed, q.of.ReturnedResources()) {
		return false
	}
	select {
	case q.to <- &answer{asked: q.request, shelf: shelf, owed: owed}:
		return true
	default: // not possible: the channel has room for one, and is used once
		return false
	}
}

// answerDelta answers if there is something to say, given what was asked for just now. The lock is held.
func (s *store) answerDelta(q *deltaQuestion, anew []string) bool {
	shelf := s.shelves[q.request.GetTypeUrl()]
	owed, told := shelf.owed(q.of), q.of.ReturnedResources()
	changed, gone := shelf.difference(owed, told, anew, q.of.IsWildcard())
	// Who asks for everything waits for a first answer even if there is nothing.
	_, answered := told[everything]
	if len(changed)+len(gone) == 0 && (answered || !q.of.IsWildcard()) {
		return false
	}
	select {
	case q.to <- &deltaAnswer{asked: q.request, shelf: shelf, owed: owed, changed: changed, gone: gone}:
		return true
	default: // not possible: there is room for two answers of each type
		return false
	}
}

// known refuses types that xDS does not have, since a stream keeps something for each type. Of one that we do not serve there are no resources, which is an answer.
func known(typeURL string) error {
	if cachev3.GetResponseType(typeURL) == types.UnknownType {
		return status.Errorf(codes.InvalidArgument, "no such type of resources: %.200q", typeURL)
	}

	return nil
}

// version is that of a type of resource.
func (s *store) version(typeURL string) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.shelves[typeURL].version
}

// waiting is how many questions are open.
func (s *store) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return len(s.asked) + len(s.askedBy)
}

var _ cachev3.ConfigWatcher = (*store)(nil)

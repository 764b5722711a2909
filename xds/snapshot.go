package xds

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
)

// Snapshot is what is served now, as JSON: a list for each kind of resource, in which the listener for gRPC clients comes before that for Envoy.
func (p *Publisher) Snapshot() (json.RawMessage, error) {
	p.mu.Lock()
	items, err := p.resources()
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	shown := make(map[string][]json.RawMessage, len(order))
	for _, typeURL := range order {
		for _, one := range items[typeURL] {
			body, err := protojson.Marshal(one.Resource)
			if err != nil {
				return nil, fmt.Errorf("print %s: %w", kind(typeURL), err)
			}
			shown[kind(typeURL)+"s"] = append(shown[kind(typeURL)+"s"], body)
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("print resources: %w", err)
	}
	even := &bytes.Buffer{} // protojson spaces at random, so that nobody relies on it
	if err := json.Compact(even, text); err != nil {
		return nil, fmt.Errorf("print resources: %w", err)
	}

	return even.Bytes(), nil
}

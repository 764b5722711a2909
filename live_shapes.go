package main

import (
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// liveShapes compares the shapes that were warmed with those that users send: both are found in the requests themselves, by the same scan.
type liveShapes struct {
	mu sync.Mutex
	// sent are the shapes of the plan as they look from outside.
	sent map[sentShape]proxy.RequestShape
	cold coldHits
}

// sentShape is a shape of the plan.
type sentShape struct {
	model string
	of    backend.Shape
}

// answered takes a synthetic request.
func (l *liveShapes) answered(model string, of backend.Shape, path string, body []byte) {
	seen := proxy.ShapeOf(path, body)
	if of.InputTokens > 0 {
		seen.Input = proxy.Bucket(of.InputTokens) // the words of a made-up prompt are shorter than anybody's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == nil {
		l.sent = map[sentShape]proxy.RequestShape{}
	}
	l.sent[sentShape{model, of}] = seen
}

// learn takes what a run of the plan has found, so that a request of a warmed shape can be told to hang before any user's has finished,
// and one that meets a cold shape from one that does not.
func (l *liveShapes) learn(report warmup.Report, learn func(circuit.Shape, time.Duration)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	warm := map[proxy.RequestShape]warmLevel{}
	for _, shape := range report.Shapes {
		seen := l.sent[sentShape{shape.Model, shape.Of}]
		if !shape.State.Warm() || seen == (proxy.RequestShape{}) {
			continue
		}
		level := warmLevelOf(shape)
		learn(seen.Key(), level.first)
		if level.first > warm[seen].first { // at several concurrencies the slowest counts
			warm[seen] = level
		}
	}
	l.cold.learn(warm)
}

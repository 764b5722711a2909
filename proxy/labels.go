package proxy

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// label is an attribute set in the forms in which instruments take it, made once: as a slice, since a single option would be put into a new one for each call.
type label struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

func labelled(attributes ...attribute.KeyValue) label {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))

	return label{record: []metric.RecordOption{set}, add: []metric.AddOption{set}}
}

// maxLabels bounds the attribute sets of one instrument: a backend may answer with any status there is. What comes after them is counted together.
const maxLabels = 200

// labels keeps the attribute sets that were needed so far, by a number that stands for their values. Reading them costs a load and a look-up.
type labels struct {
	make func(key uint32) label

	known atomic.Pointer[map[uint32]label]
	mu    sync.Mutex
}

// overflow is the label of what does not fit, as OpenTelemetry names it.
var overflow = labelled(attribute.Bool("otel.metric.overflow", true))

func (l *labels) get(key uint32) label {
	if known := l.known.Load(); known != nil {
		if found, ok := (*known)[key]; ok {
			return found
		}
	}

	return l.add(key)
}

func (l *labels) add(key uint32) label {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := map[uint32]label{}
	if known := l.known.Load(); known != nil {
		if found, ok := (*known)[key]; ok {
			return found
		}
		if len(*known) >= maxLabels {
			return overflow
		}
		maps.Copy(more, *known)
	}
	more[key] = l.make(key)
	l.known.Store(&more)

	return more[key]
}

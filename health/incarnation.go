package health

import (
	"sync"
	"time"
)

// Incarnation tells the process that is being warmed, or was, from another one at the same address. A server that is killed and started again at once accepts connections
// before any watch has seen it go; whoever connects for a user asks here, so that no user meets the new process before it is warm.
type Incarnation struct {
	identity func() string

	mu     sync.Mutex
	warmed string
	now    string
	asked  time.Time // before now was found out
}

// NewIncarnation returns an Incarnation that finds out who listens by identity; see [ListenerIdentity].
func NewIncarnation(identity func() string) *Incarnation { return &Incarnation{identity: identity} }

// Warm says that the process that listens now is the one that is warmed.
func (i *Incarnation) Warm() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.warmed = i.identity()
}

// Same tells whether the process that was connected to at that moment, or before, is the one that is warmed. Where that cannot be known it is taken to be.
// To find out who listens costs up to milliseconds; of many who ask at the same time a few do it for all.
func (i *Incarnation) Same(connected time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.asked.Before(connected) {
		i.asked = time.Now()
		i.now = i.identity()
	}

	return i.warmed == "" || i.now == "" || !hasNew(i.warmed, i.now)
}

package health

import "context"

// watchers hands snapshots to those who follow the machine. The machine's lock guards it; nobody who follows can make the machine wait.
type watchers map[chan Snapshot]struct{}

// tell puts the snapshot into every channel, in place of one that was not fetched yet. It is the only sender, so that after emptying a channel there is room.
func (w watchers) tell(snapshot Snapshot) {
	for channel := range w {
		select {
		case <-channel:
		default:
		}
		channel <- snapshot
	}
}

// Watch returns a channel on which the present snapshot and every later one arrive until ctx ends; then it is closed.
// Only the latest is kept for a reader that is slow: moves in between are found in its history.
func (m *Machine) Watch(ctx context.Context) <-chan Snapshot {
	channel := make(chan Snapshot, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	channel <- m.Snapshot()
	m.watchers[channel] = struct{}{}
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, channel)
		close(channel)
	})

	return channel
}

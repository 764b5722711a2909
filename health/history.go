package health

import "time"

// historyLength is how many moves of the pod are kept.
const historyLength = 64

// Move is one change of the pod's state.
type Move struct {
	From   State     `json:"from"`
	To     State     `json:"to"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// history is a ring of the last moves of the pod.
type history struct {
	moves [historyLength]Move
	count int // of all moves ever made
}

func (h *history) add(move Move) {
	h.moves[h.count%historyLength] = move
	h.count++
}

// list returns a copy of the moves that are kept, the oldest first.
func (h *history) list() []Move {
	kept := min(h.count, historyLength)
	list := make([]Move, 0, kept)
	for i := h.count - kept; i < h.count; i++ {
		list = append(list, h.moves[i%historyLength])
	}

	return list
}

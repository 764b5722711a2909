package main

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// pathway is what a server takes a path of the data port for.
type pathway struct {
	model                string // that it asks about
	ready, live, control bool
}

const (
	// keptPaths is how many paths are kept in mind, a power of two, and longestKept the length of the longest of them.
	keptPaths   = 256
	longestKept = 512
)

// pathways keeps in mind what paths are for: clients ask for the same few again and again, and to take one apart costs more than all else that is looked at. It is
// bounded, whatever clients ask for. The zero pathways is empty. All its methods may be called concurrently.
type pathways struct {
	kept [keptPaths]atomic.Pointer[keptPath]
}

// keptPath is a path and what it is for to one server.
type keptPath struct {
	pathway

	path string
	of   backend.Paths
}

var pathSeed = maphash.MakeSeed()

// find returns what path is for to a server.
func (p *pathways) find(of backend.Paths, path string) pathway {
	slot := &p.kept[maphash.String(pathSeed, path)%keptPaths]
	if kept := slot.Load(); kept != nil && kept.path == path && kept.of == of {
		return kept.pathway
	}
	found := &keptPath{path: path, of: of}
	found.model, found.ready = of.ReadyPath(path)
	found.live, found.control = of.LivePath(path), of.ControlPath(path)
	if len(path) <= longestKept {
		slot.Store(found)
	}

	return found.pathway
}

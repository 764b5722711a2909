package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// countingPaths counts how often a path is taken apart.
type countingPaths struct {
	backend.AnyPaths

	asked *int
	live  string
}

func (c countingPaths) LivePath(path string) bool {
	*c.asked++

	return path == c.live
}

func TestPathsAreTakenApartOnce(t *testing.T) {
	t.Parallel()
	var asked int
	var known pathways
	first, second := countingPaths{asked: &asked, live: "/a"}, countingPaths{asked: &asked, live: "/b"}
	for range 100 {
		if !known.find(first, "/a").live || known.find(first, "/b").live {
			t.Fatal("a path is taken for another")
		}
	}
	if asked > 200/2 { // two paths may have one place
		t.Errorf("200 look-ups asked the server type %d times", asked)
	}
	// Another server may have taken the place of the first.
	if known.find(second, "/a").live || !known.find(second, "/b").live {
		t.Error("what the first server took paths for is kept for the second")
	}
	// Whatever clients ask for, no more is kept, and each is told apart.
	for i := range 10 * keptPaths {
		if known.find(first, fmt.Sprint("/", i)).live {
			t.Errorf("path %d is taken for another", i)
		}
	}
	known.find(first, strings.Repeat("x", longestKept+1))
	for i := range known.kept {
		if kept := known.kept[i].Load(); kept != nil && len(kept.path) > longestKept {
			t.Error("a path of any length is kept")
		}
	}
}

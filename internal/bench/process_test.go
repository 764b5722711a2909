package main

import (
	"strings"
	"testing"
	"time"
)

func TestAStoppedProcessIsGone(t *testing.T) {
	t.Parallel()
	// It ignores SIGTERM and has a child: both must go.
	p, err := launch("stubborn", nil, nil, "sh", "-c", `trap '' TERM; sleep 60 & echo $!; wait`)
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if err := p.read(t.Context(), &child); err != nil {
		t.Fatal(err)
	}
	if err := p.gone(); err != nil {
		t.Errorf("it runs, but: %v", err)
	}
	p.stop()
	if p.gone() == nil {
		t.Error("it still runs")
	}
	for start := monotonic(); ; {
		if _, err := processorTime([]int{child}); err != nil {
			break
		}
		if monotonic()-start > 10*time.Second {
			t.Fatal("its child still runs")
		}
		<-time.After(time.Millisecond)
	}
}

func TestAProcessThatEndsSaysWhy(t *testing.T) {
	t.Parallel()
	p, err := launch("broken", nil, nil, "sh", "-c", "echo no such port >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	<-p.done
	if err := p.gone(); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "it said: no such port") {
		t.Errorf("got %v", err)
	}
}

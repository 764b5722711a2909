package warmup

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// node is a step in a run.
type node struct {
	step

	// shared is closed when lanes and sharedErr are final: the part of the step that is for no model in particular has ended.
	shared    chan struct{}
	sharedErr error
	lanes     map[string]*lane
	// sent counts the requests that a replay has sent; final once shared is closed.
	sent  int
	begun sync.Once
	// reader is what the present try of a prefetch reads with; nil in any other step.
	reader atomic.Pointer[pages.Prefetch]

	// Guarded by Runner.mu.
	state   StepState
	started time.Time
	took    time.Duration
	tries   int
	text    string
}

// lane is a step for one model.
type lane struct {
	// done is closed when the rest is final.
	done chan struct{}
	err  error
	// unwarmed says why nothing could be sent for the model.
	unwarmed string
	// crewless is true when nobody knows how many processes there are to warm.
	crewless bool
}

// skippedError is the error of a lane whose need has failed.
type skippedError struct {
	need string
	err  error
}

func (e *skippedError) Error() string {
	return fmt.Sprintf("needs %s, which failed: %v", e.need, e.err)
}

func (e *skippedError) Unwrap() error { return e.err }

// awaited returns how the step ended for the model. A step that has nothing to do with the model is waited for as a whole.
func (n *node) awaited(model string) error {
	if l, ok := n.lanes[model]; ok {
		<-l.done

		return l.err
	}
	var errs []error
	for _, l := range n.lanes {
		<-l.done
		errs = append(errs, l.err)
	}

	return errors.Join(errs...)
}

// inferred waits until the step is through with the model and says whether it sent requests that warmed it.
func (n *node) inferred(model string) bool {
	l, ok := n.lanes[model]
	if !ok {
		return n.kind == KindReplay && n.sharedErr == nil
	}
	<-l.done

	return n.kind == KindInfer && l.err == nil && l.unwarmed == ""
}

func skipped(need string, err error) error {
	// What failed first is the news; the steps in between are not.
	if earlier, ok := errors.AsType[*skippedError](err); ok {
		return earlier
	}

	return &skippedError{need: need, err: err}
}

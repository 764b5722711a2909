package config

import (
	"fmt"
	"slices"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// contradiction is a pair of values of which each is all right, but not with the other.
type contradiction struct {
	// path is where the warning stands; with is the other key, empty where the other value is no key.
	path, with string
	// holds is true when the two contradict each other.
	holds bool
	// text says what will happen.
	text string
}

// contradictions warns of limits that contradict each other (C82). Only values that somebody set count: a default gives way in silence.
func (d *document) contradictions(c *Config, grace units.Duration) []Problem {
	var warnings []Problem
	for _, x := range slices.Concat(pairs(c, grace), tlsPairs(c), stepPairs(c.Warmup)) {
		if x.holds && d.explicit(x.path) && (x.with == "" || d.explicit(x.with)) {
			warnings = append(warnings, d.problemf(x.path, "%s", x.text))
		}
	}

	return warnings
}

func pairs(c *Config, grace units.Duration) []contradiction {
	hold, drain, timeouts := c.Hold, c.Drain, c.Timeouts
	limit, memory := drain.Limit.Value, hold.Memory.Value

	return []contradiction{
		{
			"hold.max_wait.start", "warmup.timeout", hold.MaxWait.Start > 0 && hold.MaxWait.Start < c.Warmup.Timeout,
			fmt.Sprintf("%s is shorter than warmup.timeout (%s): a warm-up that takes longer refuses the requests that were held for it", hold.MaxWait.Start, c.Warmup.Timeout),
		},
		{
			"hold.assume_deadline", "hold.max_wait.start", hold.AssumeDeadline > max(hold.MaxWait.Start, hold.MaxWait.Restart),
			fmt.Sprintf("%s is never reached: no request is held for longer than hold.max_wait (%s, %s)", hold.AssumeDeadline, hold.MaxWait.Start, hold.MaxWait.Restart),
		},
		{
			"hold.max_body", "hold.memory", hold.Memory.Set && hold.MaxBody > memory,
			fmt.Sprintf("%s is more than hold.memory (%s): such a body is never held", hold.MaxBody, memory),
		},
		{
			"hold.max_body", "limits.body", c.Limits.Body > 0 && hold.MaxBody > c.Limits.Body,
			fmt.Sprintf("%s is more than limits.body (%s): such a body is refused whether it is held or not", hold.MaxBody, c.Limits.Body),
		},
		{
			"hold.max_stream_body", "hold.max_body", hold.MaxStreamBody > hold.MaxBody,
			fmt.Sprintf("%s is more than hold.max_body (%s): bodies of unknown length may be larger than those of known length", hold.MaxStreamBody, hold.MaxBody),
		},
		{
			"hold.max_requests", "readiness.ready_when", hold.MaxRequests == 0 && c.Readiness.ReadyWhen == health.WhenListening,
			"0 holds nothing, but readiness.ready_when: listening invites requests before the backend is warm: all of them are refused",
		},
		{
			"timeouts.first_byte", "timeouts.total", timeouts.Total > 0 && timeouts.Total < timeouts.FirstByte,
			fmt.Sprintf("%s is never reached: timeouts.total (%s) ends the exchange first", timeouts.FirstByte, timeouts.Total),
		},
		{
			"warmup.keep_warm", "backend.idle_unload", c.Warmup.KeepWarm > 0 && c.Backend.IdleUnload == IdleUnloadAllow,
			fmt.Sprintf("%s keeps the model loaded, so that backend.idle_unload: allow never comes to pass", c.Warmup.KeepWarm),
		},
		{
			"warmup.trigger", "hold.max_requests", c.Warmup.Trigger == warmup.TriggerFirstRequest && hold.MaxRequests == 0,
			"first-request waits for a request that is held, and with hold.max_requests: 0 none ever is",
		},
		{
			"circuit.stalled_after", "timeouts.first_byte", timeouts.FirstByte > 0 && c.Circuit.StalledAfter > timeouts.FirstByte,
			fmt.Sprintf("%s is never reached: timeouts.first_byte (%s) ends a silent exchange first", c.Circuit.StalledAfter, timeouts.FirstByte),
		},
		{
			"health.timeout", "health.interval", c.Health.Timeout.Set && c.Health.Timeout.Value > c.Health.Interval,
			fmt.Sprintf("%s is longer than health.interval (%s): a check that hangs delays those after it", c.Health.Timeout.Value, c.Health.Interval),
		},
		{
			"drain.settle", "drain.limit", drain.Limit.Set && drain.Settle > limit,
			fmt.Sprintf("%s is longer than drain.limit (%s), which includes it: nothing is left for requests to finish", drain.Settle, limit),
		},
		{
			"drain.limit", "", drain.Limit.Set && grace > 0 && limit > grace,
			fmt.Sprintf("%s is longer than the pod's grace period (%s, from %s): the pod is killed before the drain ends", limit, grace, envGrace),
		},
		{
			"drain.settle", "", !drain.Limit.Set && grace > 0 && drain.Settle > drainLimit(grace),
			fmt.Sprintf("%s does not fit the pod's grace period (%s, from %s): nothing is left for requests to finish", drain.Settle, grace, envGrace),
		},
	}
}

func stepPairs(w warmup.Config) []contradiction {
	found := make([]contradiction, 0, len(w.Steps))
	for i, step := range w.Steps {
		found = append(found, contradiction{
			fmt.Sprintf("warmup.steps[%d].timeout", i), "warmup.timeout", step.Timeout > w.Timeout,
			fmt.Sprintf("%s is longer than warmup.timeout (%s): the warm-up ends before the step does", step.Timeout, w.Timeout),
		})
	}

	return found
}

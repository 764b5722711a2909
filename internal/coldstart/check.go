package coldstart

import (
	"errors"
	"fmt"
)

const (
	// coldFactor is how many times steady the first request of a shape must take without Pilotlight for the backend to count as cold.
	coldFactor = 5
	// longestNotice is the most seconds that a hang may go unnoticed.
	longestNotice = 20
	// shortestLong is the least seconds that the long answer must take to be longer than the rule that must leave it alone.
	shortestLong = 10.5
)

// Check returns an error for each figure that contradicts what Pilotlight claims, and for each that makes the comparison prove nothing.
func (r Report) Check() error {
	var broken []error
	claim := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf(format, args...))
		}
	}
	ours, theirs := r.Arms["pilotlight"], r.Arms["server_ready"]
	claim(ours.Requests > 0, "pilotlight: no requests were sent")
	claim(ours.Succeeded == ours.Requests, "pilotlight: %d of %d requests succeeded, expected all", ours.Succeeded, ours.Requests)
	claim(ours.Correct == ours.Requests, "pilotlight: %d of %d answers equal those of a direct warm call, expected all", ours.Correct, ours.Requests)
	claim(ours.SlowAfterReady == 0, "pilotlight: %d slow requests after ready, expected none", ours.SlowAfterReady)
	claim(ours.Held > 0, "pilotlight: no request was held, so holding is not shown")
	claim(theirs.SlowAfterReady > 0, "server_ready: no slow request after ready, so the comparison proves nothing")
	claim(theirs.FirstOverSteady >= coldFactor, "server_ready: the first request of a shape took %.1f times steady, expected at least %d: the backend is not cold", theirs.FirstOverSteady, coldFactor)
	claim(r.Restart != nil && r.Restart.Refused == 0, "restart: %+v, expected none refused", r.Restart)
	claim(r.Restart != nil && r.Restart.Held > 0, "restart: %+v, expected some held", r.Restart)
	claim(r.Hang != nil && r.Hang.NoticedS <= longestNotice, "hang: %+v, expected to be noticed within %d s", r.Hang, longestNotice)
	claim(r.Hang != nil && r.Hang.HealthSaid == 200, "hang: %+v, expected a health endpoint that says 200", r.Hang)
	claim(r.Long != nil && r.Long.LeftAlone, "long answer: %+v, expected it to be left alone", r.Long)
	claim(r.Long != nil && r.Long.AnswerS >= shortestLong, "long answer: %+v, expected at least %.1f s: it proves nothing", r.Long, shortestLong)

	return errors.Join(broken...)
}

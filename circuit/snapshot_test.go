package circuit

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

func TestSnapshotAsJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), nil).run()
		r.users(2, Good)
		r.users(1, None)
		r.allow()
		r.wait(3 * time.Second)
		text, err := json.Marshal(r.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		want := `{"state":"closed","since":"2000-01-01T00:00:00Z","reason":"nothing has happened yet","forced":false,"users_failing":false,` +
			`"window":{"good":2,"bad":0,"none":1},"in_flight":1,"oldest_in_flight":"3s","trials":{"good":0,"bad":0,"none":0}}`
		if string(text) != want {
			t.Errorf("snapshot is\n%s\nexpected\n%s", text, want)
		}
	})
}

func TestSnapshotOfAnOpenBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run()
		r.wait(time.Minute)
		r.opened()
		s := r.Snapshot()
		if wait := time.Until(s.NextTrial); wait < 4*time.Second || wait > 6*time.Second {
			t.Errorf("next trial in %s", wait)
		}
		if !s.Since.Equal(time.Now()) || s.Reason == "" {
			t.Errorf("since %s because of %q", s.Since, s.Reason)
		}
		r.wait(10 * time.Second)
		if got := r.Snapshot().Reason; got != "synthetic request failed: model is sick" {
			t.Errorf("reason %q, expected how the last trial failed", got)
		}
	})
}

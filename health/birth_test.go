package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
)

func TestBirthIsTheBackendsAndNotOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listening := ""
		began := map[string]time.Time{"7": time.Now().Add(-time.Hour)}
		birth := health.NewBirth(func() string { return listening }, func(of string) (time.Time, bool) { at, known := began[of]; return at, known })
		expect := func(when string, want time.Time) {
			t.Helper()
			at, known := birth.At()
			if known == want.IsZero() || !at.Equal(want) {
				t.Errorf("%s: %s, %t, expected %s", when, at, known, want)
			}
		}
		expect("nothing was seen", time.Time{})
		listening = "7"
		birth.Seen()
		expect("its process is older than we", began["7"])
		time.Sleep(time.Minute)
		birth.Seen()
		expect("seen again", began["7"])
		listening = ""
		expect("nobody listens", time.Time{})
		listening = "8"
		first := time.Now()
		expect("another process, unseen", first)
		time.Sleep(time.Minute)
		expect("still that one", first)
		listening = "8,9"
		expect("one worker more", time.Now())
		birth.Lost()
		listening = ""
		expect("lost", time.Time{})
		birth.Seen()
		first = time.Now()
		time.Sleep(time.Minute)
		expect("who listens is not known", first)
		birth.Seen()
		expect("not known, seen again", first)
	})
}

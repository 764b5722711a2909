package health_test

import (
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
)

func TestIncarnationKnowsTheWarmedProcess(t *testing.T) {
	t.Parallel()
	listening, looks := "", 0
	incarnation := health.NewIncarnation(func() string { looks++; return listening })
	for _, test := range []struct {
		name, warmed, now string
		same              bool
	}{
		{"nothing was warmed yet", "", "7", true},
		{"the same", "7", "7", true},
		{"another", "7", "8", false},
		{"one worker more", "7", "7,8", false},
		{"one worker less", "7,8", "8", true},
		{"nobody is found", "7", "", true},
	} {
		listening = test.warmed
		incarnation.Warm()
		listening = test.now
		if got := incarnation.Same(time.Now()); got != test.same {
			t.Errorf("%s: got %t, want %t", test.name, got, test.same)
		}
	}
	looks = 0
	connected := time.Now()
	for range 100 {
		incarnation.Same(connected)
	}
	if looks != 1 {
		t.Errorf("looked %d times for one moment, want once", looks)
	}
}

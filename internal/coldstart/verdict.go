package coldstart

import "fmt"

// Verdict says in two sentences what the arms show.
func (r Report) Verdict() string {
	ours, theirs := r.Arms["pilotlight"], r.Arms["server_ready"]

	return fmt.Sprintf("Users who came after the server itself said \"ready\": %d of them waited for what was still cold, up to %.2f s. After Pilotlight said it: %d, the slowest %.3f s.\n"+
		"Those who came earlier were held for %.2f s at most, and %d of %d requests succeeded; the price is %.2f s in which the pod was not ready.",
		theirs.SlowAfterReady, theirs.SlowestAfterReadyS, ours.SlowAfterReady, ours.SlowestAfterReadyS,
		ours.HoldMaxS, ours.Succeeded, ours.Requests, ours.ReadyS-theirs.ReadyS)
}

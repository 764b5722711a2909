package proxy

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var updatePage = flag.Bool("update-refusals", false, "write docs/refusals.md anew")

// TestRefusalsAreDocumented keeps the page about refusals equal to what is answered.
func TestRefusalsAreDocumented(t *testing.T) {
	t.Parallel()
	const file = "../docs/refusals.md"
	var page strings.Builder
	page.WriteString("# When Pilotlight answers instead of the model server\n\n" +
		"HTTP clients get [problem details](https://www.rfc-editor.org/rfc/rfc9457) with a `reason`, the pod's `state`, the `request_id` and, where coming back helps, `Retry-After`. gRPC clients get a status in the\n" +
		"only head of the answer, the reason in its message, and a pushback for their retry policy. The metric `pilotlight_refusals_total` counts them by reason.\n" +
		"This page is written by `go test ./proxy -run RefusalsAreDocumented -update-refusals`.\n\n" +
		"| reason | HTTP | gRPC | come back? | text |\n|---|---|---|---|---|\n")
	for _, reason := range ReasonValues() {
		facts := reasons[reason]
		again := "no"
		if facts.retry {
			again = "yes"
		}
		fmt.Fprintf(&page, "| `%s` | %d | %s | %s | %s |\n", facts.name, facts.status, grpcCodes[facts.grpc], again, facts.title)
	}
	if *updatePage {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != page.String() {
		t.Errorf("%s is not what is answered, error %v: run this test with -update-refusals", file, err)
	}
}

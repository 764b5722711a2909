package warmup_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// TestAnswersMustEqualAFile has a server whose second answer is wrong, and the control in which all are right.
func TestAnswersMustEqualAFile(t *testing.T) {
	golden := filepath.Join(t.TempDir(), "golden.json")
	if err := os.WriteFile(golden, []byte(`{"outputs":[{"name":"y","data":[0.5]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]bool{"right": false, "wrong": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				infer := func(n, _ int) (time.Duration, int, string) {
					if wrong && n == 2 {
						return ms, http.StatusOK, `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.6]}]}`
					}

					return ms, http.StatusOK, ""
				}
				f := newFake(t, map[string]*fakeModel{"m": {infer: infer, shape: "[1,2]"}})
				step := retries(infers("shapes", warmup.InferConfig{Until: 3, Expect: warmup.ExpectConfig{EqualsFile: golden, JSON: map[string]string{"outputs.0.name": "y"}, Tolerance: 0.001}}), 0)
				runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{step}}})
				_, err := runner.Run(anHour(t))
				if wrong != (err != nil) || (wrong && !strings.Contains(err.Error(), "expected 0.5 at outputs.0.data.0, got 0.6")) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	if _, err := warmup.NewPlan([]warmup.StepConfig{infers("s", warmup.InferConfig{Expect: warmup.ExpectConfig{EqualsFile: golden + ".none"}})}); err == nil {
		t.Error("a file that is not there was read")
	}
}

// TestUnknownWorkersAreACondition has a server that does not say how many processes it has, and the control in which the configuration does.
func TestUnknownWorkersAreACondition(t *testing.T) {
	for workers, want := range map[int]int{0: 1, 2: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms), shape: "[1,2]"}})
			runner, _, _ := newRunner(t, f, warmup.Settings{Workers: workers})
			report, err := runner.Run(anHour(t))
			got := model(t, report, "m")
			if err != nil || got.Outcome != warmup.Warm || len(got.Reasons) != want || (want == 1 && got.Reasons[0] != warmup.ReasonWorkersUnknown) {
				t.Errorf("%d workers: %+v, %v", workers, got, err)
			}
		})
	}
}

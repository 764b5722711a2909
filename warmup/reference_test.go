package warmup_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// fakeReference answers every request alike, and counts.
type fakeReference struct {
	answer backend.Answer
	// silent is how many requests get no answer; refuses, why it does not start.
	silent  int
	refuses error

	mu                    sync.Mutex
	started, ended, asked int
	paths                 map[string]bool
}

func (r *fakeReference) start(_ context.Context, path string) (*warmup.Reference, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
	if path != "m.onnx" {
		return nil, errors.New("another path: " + path)
	}
	if r.refuses != nil {
		return nil, r.refuses
	}

	return &warmup.Reference{Ask: r.ask, End: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended++
	}}, nil
}

func (r *fakeReference) ask(_ context.Context, request backend.Request) (backend.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths == nil {
		r.paths = map[string]bool{}
	}
	r.paths[request.Path] = true
	if r.asked++; r.asked <= r.silent {
		return backend.Answer{}, errors.New("the worker is gone")
	}

	return r.answer, nil
}

func TestAnswersMustEqualTheReference(t *testing.T) {
	ok := func(body string) backend.Answer { return backend.Answer{Status: http.StatusOK, Body: []byte(body)} }
	for _, test := range []struct {
		name           string
		reference      *fakeReference
		retries        int
		says           string
		started, ended int
	}{
		{"right", &fakeReference{answer: ok(`{"outputs":[{"name":"y","shape":[1],"data":[[0.5004]]}]}`)}, 0, "", 1, 1},
		{"wrong", &fakeReference{answer: ok(`{"outputs":[{"name":"y","shape":[1],"data":[0.6]}]}`)}, 0, `output "y" at 0: expected 0.6, got 0.5, tolerance 0.001`, 1, 1},
		{"another output", &fakeReference{answer: ok(`{"outputs":[{"name":"z","shape":[1],"data":[0.5]}]}`)}, 0, `output "z" is expected`, 1, 1},
		{"another shape", &fakeReference{answer: ok(`{"outputs":[{"name":"y","shape":[1,1],"data":[0.5]}]}`)}, 0, `output "y": expected shape [1 1], got [1]`, 1, 1},
		{"a reference that refuses", &fakeReference{answer: backend.Answer{Status: 400, Body: []byte("no such input")}}, 0, `status 400: "no such input"`, 1, 1},
		{"a reference that does not start", &fakeReference{refuses: errors.New("there is no ONNX Runtime")}, 1, "start the reference m.onnx: there is no ONNX Runtime", 2, 0},
		{"a reference that died", &fakeReference{silent: 1}, 0, "ask the reference m.onnx: the worker is gone", 1, 1},
		{"a reference that died and was started again", &fakeReference{silent: 1, answer: ok(`{"outputs":[{"name":"y","data":[0.5]}]}`)}, 1, "", 2, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms), shape: "[1,2]"}})
				step := retries(infers("shapes", warmup.InferConfig{Until: 3, Expect: warmup.ExpectConfig{EqualsReference: "m.onnx", Tolerance: 0.001}}), test.retries)
				reference := test.reference
				runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{step}}, Reference: reference.start})
				_, err := runner.Run(anHour(t))
				if (test.says == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.says)) {
					t.Errorf("got %v, expected one that says %q", err, test.says)
				}
				if reference.started != test.started || reference.ended != test.ended {
					t.Errorf("%d started and %d ended, expected %d and %d", reference.started, reference.ended, test.started, test.ended)
				}
				if reference.asked > 0 && !reference.paths["/v2/models/"+warmup.ReferenceModel+"/infer"] {
					t.Errorf("asked by %v", reference.paths)
				}
			})
		})
	}
}

// TestNoReferenceIsStartedUnasked has a plan in which no step asks for one.
func TestNoReferenceIsStartedUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms), shape: "[1,2]"}})
		reference := &fakeReference{}
		runner, _, _ := newRunner(t, f, warmup.Settings{Reference: reference.start})
		if _, err := runner.Run(anHour(t)); err != nil || reference.started != 0 {
			t.Errorf("%d started, %v", reference.started, err)
		}
	})
}

func TestReferenceIsRefusedWhereNothingCanBeCompared(t *testing.T) {
	t.Parallel()
	steps := []warmup.StepConfig{infers("s", warmup.InferConfig{Expect: warmup.ExpectConfig{EqualsReference: "m.onnx"}})}
	plan, err := warmup.NewPlan(steps)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range backend.Names() {
		err := plan.Fits(name)
		if tensors := name == "oip" || name == "triton"; tensors != (err == nil) || (err != nil && !strings.Contains(err.Error(), "type "+name+" does not answer with; expected one of type oip or triton")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := warmup.NewRunner(warmup.Settings{Client: client, Config: warmup.Config{Steps: steps}}); err == nil || !strings.Contains(err.Error(), "equals_reference") {
		t.Errorf("nothing to start it with: %v", err)
	}
}

// TestReferenceIsRefusedOnceTheServerIsKnown has a language model behind type auto: what the plan cannot say when it is read.
func TestReferenceIsRefusedOnceTheServerIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms), shape: "[1,2]"}})
		step := infers("shapes", warmup.InferConfig{Model: "m", Until: 3, Expect: warmup.ExpectConfig{EqualsReference: "m.onnx"}})
		reference := &fakeReference{}
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{step}}, Reference: reference.start, Dialect: backend.NewTFServing(f.client)})
		begun := time.Now()
		_, err := runner.Run(anHour(t))
		if err == nil || !strings.Contains(err.Error(), "tfserving does not answer with") || reference.started != 0 || time.Since(begun) > time.Second {
			t.Errorf("after %v: %d started, %v", time.Since(begun), reference.started, err)
		}
	})
}

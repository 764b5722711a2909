package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// warmChat is a report of one warm shape, and the request by which it was warmed.
func warmChat(l *liveShapes) warmup.Report {
	of := backend.Shape{InputTokens: 100, OutputTokens: 8, Endpoint: backend.EndpointChat, Stream: true, Temperature: 0.7}
	l.answered("m", of, "/v1/chat/completions", []byte(`{"model":"m","messages":[{"role":"user","content":"a b c"}],"max_tokens":8,"stream":true,"temperature":0.7}`))

	return warmup.Report{Shapes: []warmup.ShapeReport{
		{Model: "m", Of: of, State: warmup.ShapeConverged, Seen: steady.Report{Level: 20 * time.Millisecond, P95: 30 * time.Millisecond}},
		{Model: "m", Of: backend.Shape{InputTokens: 500}, State: warmup.ShapeNotConverged, Seen: steady.Report{Level: time.Second}},
	}}
}

func TestTheBreakerLearnsWarmedShapesAsUsersSendThem(t *testing.T) {
	live := &liveShapes{}
	learned := map[circuit.Shape]time.Duration{}
	live.learn(warmChat(live), func(shape circuit.Shape, took time.Duration) { learned[shape] = took })
	user := proxy.RequestShape{Model: "m", Endpoint: "chat", Input: 128, Output: 8, Stream: true, Sampled: true}
	if len(learned) != 1 || learned[user.Key()] != 30*time.Millisecond {
		t.Errorf("learned %v, expected 30 ms for the shape of the user's request, %v, and nothing else", learned, user.Key())
	}
}

// TestColdHitsAreCountedAndNamed judges requests by what one warm shape took: 30 ms to the first token of a prompt of 128.
func TestColdHitsAreCountedAndNamed(t *testing.T) {
	var log bytes.Buffer
	live := &liveShapes{}
	live.cold.logger = slog.New(slog.NewTextHandler(&log, nil))
	live.learn(warmChat(live), func(circuit.Shape, time.Duration) {})
	shape := func(change func(*proxy.RequestShape)) proxy.RequestShape {
		made := proxy.RequestShape{Model: "m", Endpoint: "chat", Input: 128, Output: 8, Stream: true, Sampled: true}
		change(&made)

		return made
	}
	for name, test := range map[string]struct {
		shape proxy.RequestShape
		took  time.Duration
		cold  bool
	}{
		"a warmed shape, however slow":      {shape(func(*proxy.RequestShape) {}), time.Second, false},
		"not warmed, and as fast":           {shape(func(s *proxy.RequestShape) { s.Sampled = false }), 40 * time.Millisecond, false},
		"not warmed, and slow":              {shape(func(s *proxy.RequestShape) { s.Sampled = false }), time.Second, true},
		"larger, and slower in proportion":  {shape(func(s *proxy.RequestShape) { s.Input = 1024 }), 700 * time.Millisecond, false},
		"larger, and slower out of it":      {shape(func(s *proxy.RequestShape) { s.Input = 1024 }), 2 * time.Second, true},
		"a picture":                         {shape(func(s *proxy.RequestShape) { s.Image = true }), time.Second, true},
		"a whole answer of unknown length":  {shape(func(s *proxy.RequestShape) { s.Stream, s.Output = false, 0 }), time.Minute, false},
		"a whole answer, tokens not judged": {shape(func(s *proxy.RequestShape) { s.Stream = false }), time.Minute, false},
		"a model that nobody warmed":        {shape(func(s *proxy.RequestShape) { s.Model = "other" }), time.Minute, false},
	} {
		before := live.cold.total
		live.cold.observe(proxy.Observation{Shape: test.shape, FirstByte: test.took})
		if cold := live.cold.total > before; cold != test.cold {
			t.Errorf("%s: cold %t, expected %t", name, cold, test.cold)
		}
	}
	live.cold.observe(proxy.Observation{Shape: shape(func(s *proxy.RequestShape) { s.Image = true }), FirstByte: 2 * time.Second})
	if lines := strings.Count(log.String(), "\n"); lines != 3 {
		t.Errorf("%d lines, expected one for each of 3 shapes:\n%s", lines, log.String())
	}
	hits, _ := live.cold.report().([]coldHit)
	if len(hits) != 3 || hits[0].Count != 2 || hits[0].Slowest != 2*time.Second || hits[0].Expected != 30*time.Millisecond {
		t.Fatalf("report %+v, expected the picture first, with two hits", hits)
	}
	// What is suggested is a step that the plan takes.
	for _, hit := range hits {
		var step warmup.StepConfig
		if err := yaml.UnmarshalWithOptions([]byte("name: more\n"+hit.Suggestion), &step, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", hit.Suggestion, err)
		}
		if plan, err := warmup.NewPlan([]warmup.StepConfig{step}); err != nil || plan.Fits("vllm") != nil {
			t.Errorf("%s: %v %v", hit.Suggestion, err, plan.Fits("vllm"))
		}
	}
}

// slowSecond is a longPlan that takes a second for a batch of two.
type slowSecond struct{ longPlan }

func (s *slowSecond) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(string(body), `"shape":[2,2]`) {
		<-time.After(time.Second)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.longPlan.ServeHTTP(w, r)
}

// TestAColdHitIsSeenInARunningPilotlight sends a shape that was warmed and one that was not.
func TestAColdHitIsSeenInARunningPilotlight(t *testing.T) {
	server := httptest.NewServer(&slowSecond{})
	t.Cleanup(server.Close)
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "http: "+strings.TrimPrefix(server.URL, "http://"), "warmup: {steps: [{name: shapes, infer: {grid: {batch: [1]}}}]}\n"))
	until(t, p.readyz(), http.StatusOK)
	send := func(batch int) {
		body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,2],"data":[1,2]}]}`, batch)
		answer, err := plain.Post("http://"+p.data+"/v2/models/m/infer", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	hits := func() string {
		_, page := get(t, "http://"+p.health+"/metrics")
		_, after, _ := strings.Cut(page, "\npilotlight_cold_hits_total ")
		number, _, _ := strings.Cut(after, "\n")

		return number
	}
	send(1)
	if got := hits(); got != "0" {
		t.Errorf("%s cold hits after a request of a warmed shape", got)
	}
	send(2)
	for range 1000 { // it is counted when the request is over, which is after its answer
		if hits() == "1" {
			break
		}
		pause(t.Context())
	}
	if _, body := get(t, "http://"+p.admin+"/statusz"); hits() != "1" || !strings.Contains(body, `batch: [2]`) {
		t.Errorf("%s cold hits, expected 1, and a suggestion in %s", hits(), body)
	}
}

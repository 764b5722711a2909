package main

import (
	"testing"
	"time"

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

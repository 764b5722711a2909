package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// idlePilot is one that was wired and never started, with a backend that need not be there.
func idlePilot(t *testing.T, change func(*config.Config)) *pilot {
	t.Helper()
	settings := config.Default()
	settings.Backend.HTTP = units.Address{Network: "tcp", Host: "localhost:1"}
	settings.Listen.AdminTokenFile.Value = filepath.Join(t.TempDir(), "token")
	change(settings)
	p, err := newPilot(settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)

	return p
}

// scrape asks the health port for the page of metrics.
func scrape(t *testing.T, p *pilot) string {
	t.Helper()
	answer := httptest.NewRecorder()
	p.health.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", answer.Code, answer.Body)
	}

	return answer.Body.String()
}

// Every metric on the page of the health port is in docs/metrics.md, and every one of the docs that rooms give the facts for is on the page.
func TestThePageOfMetricsIsTheOneOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	p := idlePilot(t, func(c *config.Config) {
		c.Telemetry.Traces.OTLP = units.Address{Network: "tcp", Host: "localhost:1"}
		c.XDS.Serve = units.Listen{Network: "tcp", Host: "localhost:0"}
		c.Models = []health.ModelConfig{{Name: "m", Required: true}}
	})
	p.machine.Raise("m", health.CodeWarmFailed, "no")
	p.tallies.moved(circuit.Closed, circuit.Open)
	if err := p.telemetry.Observe(func(o *telemetry.Observer) { // a run that was
		observeWarmup(o, warmup.Report{
			Run: 1, Started: time.Now(), Ended: time.Now(), Steps: []warmup.StepReport{{Name: "s", Pages: &pages.Report{Bytes: 1, Files: []pages.FileReport{{Bytes: 1, Resident: new(float64)}}}}},
			Shapes: []warmup.ShapeReport{{Step: "s", Model: "m", Of: backend.Shape{Batch: 1}, Concurrency: 1, Seen: steady.Report{N: 3}}},
		})
	}); err != nil {
		t.Fatal(err)
	}
	scraped := scrape(t, p)
	told := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(scraped, -1) {
		told[match[1]] = true
		if !strings.Contains(string(page), "| `"+match[1]+"` |") {
			t.Errorf("%s is not in docs/metrics.md", match[1])
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `").FindAllStringSubmatch(string(page), -1)
	for i, row := range rows {
		if i > int(telemetry.BodyBytes) && !told[row[1]] { // those before it are recorded request by request
			t.Errorf("%s is in docs/metrics.md and nobody tells it", row[1])
		}
	}
	if len(told) < 30 {
		t.Errorf("the page has %d metrics only: the checks would prove nothing", len(told))
	}
	for _, want := range []string{
		`pilotlight_pod_state{state="starting"} 1`, `pilotlight_pod_state{state="ready"} 0`, `pilotlight_gate_mode{mode="holding"} 1`,
		`pilotlight_breaker_moves_total{from="closed",to="open"} 1`, `pilotlight_condition{code="warm_failed",model="m",severity="warning"} 1`,
		`pilotlight_warmup_shape_requests{concurrency="1",model="m",shape="batch=1",step="s"} 3`,
	} {
		if !strings.Contains(scraped, want+"\n") {
			t.Errorf("the page lacks %s:\n%s", want, scraped)
		}
	}
}

// C78: what Pilotlight asks by itself has a counter of its own, which never falls, and users' counters stay at nothing.
func TestC78SyntheticRequestsAreNoUsers(t *testing.T) {
	p := idlePilot(t, func(*config.Config) {})
	for range 100 {
		_ = p.tallies.checking(func(context.Context) error { return nil })(t.Context())
	}
	_ = p.tallies.checking(func(context.Context) error { return backend.ErrNoRequest })(t.Context()) // which was no request
	p.tallies.settle(warmup.Report{Run: 1, Requests: 40, Busy: 2})
	p.tallies.settle(warmup.Report{Run: 1, Requests: 40, Busy: 2})
	p.tallies.settle(warmup.Report{Run: 2, Requests: 5})
	page := scrape(t, p)
	for _, want := range []string{
		`pilotlight_synthetic_requests_total{purpose="check",result="answered"} 100`, `pilotlight_synthetic_requests_total{purpose="check",result="failed"} 0`,
		`pilotlight_synthetic_requests_total{purpose="warmup",result="answered"} 45`, `pilotlight_synthetic_requests_total{purpose="warmup",result="busy"} 2`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	for _, users := range []string{"http_server_request_duration", "rpc_server_call_duration", "pilotlight_exchanges"} {
		if strings.Contains(page, users) {
			t.Errorf("nobody has asked for anything, and the page has %s", users)
		}
	}
}

func TestTheBackendsMetricsAreOnThePage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)

			return
		}
		_, _ = w.Write([]byte("engine_tokens_total 7\n"))
	}))
	defer server.Close()
	for _, include := range []bool{true, false} {
		p := idlePilot(t, func(c *config.Config) {
			c.Backend.HTTP = units.Address{Network: "tcp", Host: server.Listener.Addr().String()}
			c.Telemetry.Metrics.IncludeBackend = include
		})
		if page := scrape(t, p); strings.Contains(page, "engine_tokens_total 7\n") != include {
			t.Errorf("include_backend is %v:\n%s", include, page)
		}
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	p := idlePilot(t, func(*config.Config) {})
	for _, state := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateNew, http.StateHijacked} {
		p.health.ConnState(nil, state)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	data := p.handler.Limit(raw)
	defer func() { _ = data.Close() }()
	for range 2 {
		client, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		accepted, err := data.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = accepted.Close() }()
	}
	if page := scrape(t, p); !strings.Contains(page, `pilotlight_connections{port="health"} 1`+"\n") || !strings.Contains(page, `pilotlight_connections{port="data"} 2`+"\n") {
		t.Errorf("one connection to the health port and two to the data port are open:\n%s", page)
	}
}

package status_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/status"
)

// desk is an admin handler and what it was made to do.
type desk struct {
	handler http.Handler
	warmed  []string
	drained int
	quit    int
	log     strings.Builder
}

func newDesk(change func(*status.Settings)) *desk {
	d := &desk{}
	machine := health.NewMachine(health.Settings{Models: []health.ModelConfig{{Name: "resnet", Required: true}}})
	settings := status.Settings{
		Health:  machine.Snapshot,
		Gate:    func() any { return map[string]int{"held": 7} },
		Version: "v1.2.3",
		Config:  func() any { return map[string]string{"ready_when": "warm"} },
		Token:   "secret",
		Warm: func(model string) error {
			d.warmed = append(d.warmed, model)
			if model == "nobody" {
				return errors.New("warm model: no such model")
			}

			return nil
		},
		Drain:  func() { d.drained++ },
		Quit:   func() error { d.quit++; return nil },
		Logger: slog.New(slog.NewTextHandler(&d.log, nil)),
	}
	if change != nil {
		change(&settings)
	}
	d.handler = status.NewAdmin(settings)

	return d
}

// ask sends one request; it bears the token unless change takes it away.
func (d *desk) ask(t *testing.T, method, target, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host = "localhost:9002"
	r.Header.Set("Authorization", "Bearer secret")
	if change != nil {
		change(r)
	}
	answer := httptest.NewRecorder()
	d.handler.ServeHTTP(answer, r)
	if method != http.MethodHead && !json.Valid(answer.Body.Bytes()) {
		t.Errorf("%s %s answers %q, which is no JSON", method, target, answer.Body)
	}
	if answer.Header().Get("Cache-Control") != "no-store" || answer.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s %s answers with header %v", method, target, answer.Header())
	}

	return answer
}

func TestAdminAnswers(t *testing.T) {
	for _, test := range []struct {
		name, method, target, body string
		expected                   int
		contains                   string
	}{
		{"status", "GET", "/statusz", "", 200, `"version":"v1.2.3"`},
		{"status, pretty", "GET", "/statusz?pretty", "", 200, "\n  \"version\": \"v1.2.3\""},
		{"head", "HEAD", "/statusz", "", 200, ""},
		{"config", "GET", "/config", "", 200, `"ready_when":"warm"`},
		{"warm all", "POST", "/warm", "", 202, `{"accepted":"warm"}`},
		{"warm one", "POST", "/warm?model=a%2Bb+c", "", 202, `"model":"a+b+c"`},
		{"warm nobody", "POST", "/warm?model=nobody", "", 409, "no such model"},
		{"warm what", "POST", "/warm?model=%zz", "", 400, "percent-encoded"},
		{"drain", "POST", "/drain", "", 202, `"accepted":"drain"`},
		{"quit", "POST", "/quit", "", 202, `"accepted":"quit"`},
		{"quit by a link", "GET", "/quit", "", 405, "POST"},
		{"drain by a link", "GET", "/drain", "", 405, "POST"},
		{"post to status", "POST", "/statusz", "", 405, "GET, HEAD"},
		{"half a method", "GE", "/statusz", "", 405, "GET, HEAD"},
		{"elsewhere", "GET", "/metrics", "", 404, "/statusz"},
		{"a small body", "POST", "/warm", "{}", 202, "accepted"},
		{"a large body", "POST", "/warm", strings.Repeat("x", 4097), 413, "4096"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(nil)
			answer := d.ask(t, test.method, test.target, test.body, nil)
			if answer.Code != test.expected || !strings.Contains(answer.Body.String(), test.contains) {
				t.Errorf("got %d %s, expected %d and %s", answer.Code, answer.Body, test.expected, test.contains)
			}
			if allow := answer.Header().Get("Allow"); (allow != "") != (test.expected == 405) {
				t.Errorf("Allow is %q", allow)
			}
			if acted := len(d.warmed)+d.drained+d.quit > 0; acted != (test.expected == 202 || test.expected == 409) {
				t.Errorf("warmed %q, drained %d times, quit %d times", d.warmed, d.drained, d.quit)
			}
		})
	}
}

func TestStatusHoldsEachPart(t *testing.T) {
	var document map[string]any
	if err := json.Unmarshal(newDesk(nil).ask(t, "GET", "/statusz", "", nil).Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	state, _ := document["health"].(map[string]any)
	gate, _ := document["gate"].(map[string]any)
	if state["state"] != "starting" || gate["held"] != 7.0 {
		t.Errorf("got %v", document)
	}
	if _, there := document["circuit"]; there {
		t.Errorf("a part that nobody handed over is there: %v", document)
	}
}

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	for _, test := range []struct {
		host     string
		expected int
	}{
		{"localhost", 200},
		{"localhost:9002", 200},
		{"LOCALHOST:9002", 200},
		{"127.0.0.1:9002", 200},
		{"127.9.9.9", 200},
		{"[::1]:9002", 200},
		{"[::1]", 200},
		{"::1", 200},
		{"[::ffff:127.0.0.1]:80", 200},
		{"", 403},
		{"evil.example:9002", 403},
		{"localhost.evil.example", 403},
		{"127.0.0.1.evil.example:9002", 403},
		{"10.0.0.7:9002", 403},
		{"0.0.0.0:9002", 403},
		{"[::1", 403},
		{"[localhost", 403},
	} {
		t.Run(test.host, func(t *testing.T) {
			d := newDesk(nil)
			for method, target := range map[string]string{"GET": "/statusz", "POST": "/drain"} {
				answer := d.ask(t, method, target, "", func(r *http.Request) { r.Host = test.host })
				if got := answer.Code; (got == 403) != (test.expected == 403) {
					t.Errorf("%s %s from host %q: %d %s", method, target, test.host, got, answer.Body)
				}
				if answer.Code == 403 && !strings.Contains(answer.Body.String(), "Host header") {
					t.Errorf("the reason is not said: %s", answer.Body)
				}
			}
			if (d.drained > 0) != (test.expected == 200) {
				t.Errorf("drained %d times", d.drained)
			}
		})
	}
}

func TestActingNeedsTheToken(t *testing.T) {
	for _, test := range []struct {
		name, token, authorization string
		expected                   int
	}{
		{"right", "secret", "Bearer secret", 202},
		{"scheme in lower case", "secret", "bearer secret", 202},
		{"none", "secret", "", 401},
		{"wrong", "secret", "Bearer secreT", 401},
		{"beginning", "secret", "Bearer secre", 401},
		{"longer", "secret", "Bearer secret1", 401},
		{"another scheme", "secret", "Basic secret", 401},
		{"no scheme", "secret", "secret", 401},
		{"nobody may act", "", "Bearer ", 401},
		{"nobody may act without a header", "", "", 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(func(s *status.Settings) { s.Token = test.token })
			bear := func(r *http.Request) { r.Header.Set("Authorization", test.authorization) }
			for _, target := range []string{"/warm", "/drain", "/quit"} {
				answer := d.ask(t, "POST", target, "", bear)
				if answer.Code != test.expected || (answer.Code == 401) != (answer.Header().Get("WWW-Authenticate") == "Bearer") {
					t.Errorf("%s: %d %s", target, answer.Code, answer.Body)
				}
			}
			if acted := len(d.warmed) + d.drained + d.quit; (acted == 3) != (test.expected == 202) {
				t.Errorf("acted %d times", acted)
			}
			if answer := d.ask(t, "GET", "/statusz", "", bear); answer.Code != 200 {
				t.Errorf("looking needs no token: %d", answer.Code)
			}
		})
	}
}

func TestQuitThatIsNotAllowedSaysWhy(t *testing.T) {
	d := newDesk(func(s *status.Settings) { s.Quit = func() error { return errors.New("drain.quit is not true") } })
	if answer := d.ask(t, "POST", "/quit", "", nil); answer.Code != 403 || !strings.Contains(answer.Body.String(), "drain.quit") {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
}

func TestWhatIsNotHandedOverIsNotImplemented(t *testing.T) {
	d := newDesk(func(s *status.Settings) {
		s.Warm, s.Drain, s.Quit, s.Config, s.Health, s.Logger = nil, nil, nil, nil, nil, nil
	})
	for target, method := range map[string]string{"/warm": "POST", "/drain": "POST", "/quit": "POST", "/config": "GET"} {
		if answer := d.ask(t, method, target, "", nil); answer.Code != 501 {
			t.Errorf("%s: %d %s", target, answer.Code, answer.Body)
		}
	}
	if answer := d.ask(t, "GET", "/statusz", "", nil); answer.Code != 200 {
		t.Errorf("/statusz: %d %s", answer.Code, answer.Body)
	}
}

func TestActionsAreLogged(t *testing.T) {
	d := newDesk(nil)
	from := func(r *http.Request) { r.RemoteAddr = "127.0.0.1:4711" }
	d.ask(t, "POST", "/warm?model=resnet", "", from)
	d.ask(t, "POST", "/warm?model=nobody", "", from)
	d.ask(t, "POST", "/drain", "", func(r *http.Request) { from(r); r.Header.Del("Authorization") })
	d.ask(t, "GET", "/statusz", "", from)
	lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("logged %q", lines)
	}
	for i, expected := range []string{"taken", "failed", "refused"} {
		if !strings.Contains(lines[i], expected) || !strings.Contains(lines[i], "from=127.0.0.1:4711") || strings.Contains(lines[i], "secret") {
			t.Errorf("line %q, expected it to say %s", lines[i], expected)
		}
	}
}

func TestAValueWithoutAFormIsAnError(t *testing.T) {
	d := newDesk(func(s *status.Settings) { s.Circuit = func() any { return math.NaN() } })
	if answer := d.ask(t, "GET", "/statusz", "", nil); answer.Code != 500 || !strings.Contains(answer.Body.String(), "error") {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
}

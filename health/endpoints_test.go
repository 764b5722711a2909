package health

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ask sends one request to the endpoints.
func ask(t *testing.T, handler http.Handler, method, target string) (status int, body string, header http.Header) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))

	return answer.Code, answer.Body.String(), answer.Header()
}

func TestEndpointsAreFew(t *testing.T) {
	m := NewMachine(Settings{})
	warm(t, m)
	handler := NewEndpoints(EndpointSettings{Machine: m})
	for _, test := range []struct {
		name, method, target string
		expected             int
	}{
		{"live", "GET", "/livez", 200},
		{"started", "GET", "/startupz", 200},
		{"ready", "GET", "/readyz", 200},
		{"head", "HEAD", "/readyz", 200},
		{"post", "POST", "/readyz", 405},
		{"a method nobody knows", "BREW", "/livez", 405},
		{"backend live", "GET", "/livez/backend", 200},
		{"post to the backend's", "POST", "/livez/backend", 405},
		{"no drain to wait for", "GET", "/drainz", 404},
		{"root", "GET", "/", 404},
		{"path to be cleaned", "GET", "//readyz", 404},
		{"path with a slash", "GET", "/readyz/", 404},
		{"post elsewhere", "POST", "/v2/models/m/infer", 404},
		{"unknown parameter", "GET", "/readyz?x=y", 200},
		{"broken escape", "GET", "/readyz?model=%zz", 400},
		{"two models", "GET", "/readyz?model=a&model=b", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body, header := ask(t, handler, test.method, test.target)
			if status != test.expected {
				t.Errorf("got %d %q, expected %d", status, body, test.expected)
			}
			if header.Get("Cache-Control") != "no-store" || header.Get("Location") != "" {
				t.Errorf("header %v", header)
			}
			if allow := header.Get("Allow"); (status == 405) != (allow == "GET, HEAD") {
				t.Errorf("Allow is %q", allow)
			}
			if (test.method == "HEAD") != (body == "") {
				t.Errorf("body %q", body)
			}
		})
	}
}

func TestLiveAndStartedNeverDependOnTheBackend(t *testing.T) {
	m := NewMachine(Settings{Models: required("a")})
	started := false
	handler := NewEndpoints(EndpointSettings{Machine: m, Started: func() bool { return started }})
	if status, body, _ := ask(t, handler, "GET", "/startupz"); status != 503 || body != "not started\n" {
		t.Errorf("before the start: %d %q", status, body)
	}
	started = true
	for _, to := range []State{Cold, Warming, Unhealthy, Draining, Stopped} {
		m.MoveAll(to, "test")
		for _, path := range []string{"/livez", "/startupz"} {
			if status, body, _ := ask(t, handler, "GET", path); status != 200 || body != "ok\n" {
				t.Errorf("%s while %s: %d %q", path, to, status, body)
			}
		}
		if status, _, _ := ask(t, handler, "GET", "/readyz"); status != 503 {
			t.Errorf("/readyz while %s: %d", to, status)
		}
	}
}

func TestReadyzNamesStateAndCodesOnly(t *testing.T) {
	m := NewMachine(Settings{Models: []ModelConfig{{Name: "a", Required: true}, {Name: "b\nok: ready"}}})
	handler := NewEndpoints(EndpointSettings{Machine: m})
	m.MoveAll(Warming, "secret reason")
	m.Raise("a", CodeWarmFailed, "secret text")
	m.Raise("", CodeCredentialsRefused, "secret text")
	status, body, _ := ask(t, handler, "GET", "/readyz")
	if expected := "not ready: warming (credentials_refused, warm_failed)\n"; status != 503 || body != expected {
		t.Errorf("got %d %q, expected %q", status, body, expected)
	}
	_, body, _ = ask(t, handler, "GET", "/readyz?verbose")
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	expected := []string{
		"not ready: warming since @ (credentials_refused, warm_failed)",
		"backend warming since @",
		"condition credentials_refused critical since @",
		`model "a" required warming since @`,
		`condition warm_failed warning of model "a" since @`,
		`model "b\nok: ready" optional warming since @`,
	}
	if len(lines) != len(expected) {
		t.Fatalf("got %d lines:\n%s", len(lines), body)
	}
	for i, line := range lines {
		before, after, _ := strings.Cut(expected[i], "@")
		if !strings.HasPrefix(line, before+"20") || !strings.HasSuffix(line, after) {
			t.Errorf("line %q, expected %q", line, expected[i])
		}
	}
	if strings.Contains(body, "secret") {
		t.Errorf("texts and reasons are for the admin port: %s", body)
	}
	for _, off := range []string{"/readyz?verbose=0", "/readyz?verbose=false"} {
		if _, body, _ := ask(t, handler, "GET", off); strings.Count(body, "\n") != 1 {
			t.Errorf("%s answers %q", off, body)
		}
	}
}

func TestReadyzOfOneModel(t *testing.T) {
	m := NewMachine(Settings{Models: required("a/b c", "a+b", "100%", "cold"), Readiness: ReadinessConfig{ReadyWhen: WhenListening}})
	warm(t, m)
	must(t, m, "cold", Cold)
	handler := NewEndpoints(EndpointSettings{Machine: m})
	for _, test := range []struct {
		name, query, body string
		expected          int
	}{
		{"escaped once", "model=a%2Fb%20c", "ok: ready\n", 200},
		{"unescaped slash", "verbose=0&model=a/b%20c", "ok: ready\n", 200},
		{"plus is a plus", "model=a+b", "ok: ready\n", 200},
		{"escaped plus", "model=a%2Bb", "ok: ready\n", 200},
		{"percent sign", "model=100%25", "ok: ready\n", 200},
		{"escaped twice", "model=100%2525", "no such model\n", 404},
		{"unknown", "model=nobody", "no such model\n", 404},
		{"empty", "model=", "no such model\n", 404},
		{"no value", "model", "no such model\n", 404},
		{"cold", "model=cold", "not ready: cold\n", 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			if status, body, _ := ask(t, handler, "GET", "/readyz?"+test.query); status != test.expected || body != test.body {
				t.Errorf("got %d %q, expected %d %q", status, body, test.expected, test.body)
			}
		})
	}
	_, body, _ := ask(t, handler, "GET", "/readyz?model=cold&verbose")
	if !strings.Contains(body, `model "cold" required cold since `) || strings.Contains(body, "a+b") {
		t.Errorf("verbose for one model: %q", body)
	}
	must(t, m, "", Unhealthy)
	if status, _, _ := ask(t, handler, "GET", "/readyz?model=a+b"); status != 503 {
		t.Errorf("a model of an unhealthy backend: %d", status)
	}
}

package backend_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server that answers each "METHOD /path" with a status and a body, and everything else with 404.
type fake map[string]reply

type reply struct {
	status int
	body   string
}

func (f fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, known := f[r.Method+" "+r.URL.EscapedPath()]
	if !known {
		answer = reply{http.StatusNotFound, "no such page"}
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
}

func serve(t *testing.T, handler http.Handler, settings backend.ClientSettings) *backend.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	settings.Network, settings.Address = "tcp", strings.TrimPrefix(server.URL, "http://")
	client, err := backend.NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}

	return client
}

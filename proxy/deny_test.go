package proxy

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestDenyPaths(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, pattern, path string
		want                bool
	}{
		{"itself", "/sleep", "/sleep", true},
		{"nothing below", "/sleep", "/sleep/x", false},
		{"nothing that begins alike", "/sleep", "/sleepy", false},
		{"all below", "/api/*", "/api/a/b", true},
		{"not what they stand in", "/api/*", "/api", false},
		{"a name", "/v2/repository/*/load", "/v2/repository/models/m/load", true},
		{"a name with a slash", "/v2/repository/*/load", "/v2/repository/models/a/b/load", true},
		{"another end", "/v2/repository/*/load", "/v2/repository/models/m/loaded", false},
		{"two stars", "/a/*/b/*/c", "/a/x/b/y/c", true},
		{"stars do not share", "/a*a", "/a", false},
		{"pieces in order", "/a/*/b/*/c", "/a/x/c/y/b", false},
		{"everything", "/*", "/x", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := DenyPaths([]string{"/never", test.pattern})(test.path); got != test.want {
				t.Errorf("%s for %s: %v, want %v", test.pattern, test.path, got, test.want)
			}
		})
	}
	if DenyPaths(nil)("/") {
		t.Error("a list of nothing denies something")
	}
}

// TestDeniedPathsAreSeenThroughEveryDisguise sends what servers read as one path in all the ways in which it can be written. The control is the same path, spelt
// the same, with its name changed by one letter: it arrives.
func TestDeniedPathsAreSeenThroughEveryDisguise(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	backend := rawBackend(t, func(_ int, conn net.Conn, _ string, _ *bufio.Reader) {
		arrived.Add(1)
		_, _ = conn.Write([]byte("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"))
	})
	for _, mode := range []Mode{Holding, Passing} {
		r := socketRig(t, backend, func(s *Settings, _ *GateSettings) { s.Denied = DenyPaths([]string{"/v2/repository/*/load"}) })
		if mode == Passing {
			passing(r.gate)
		}
		for _, target := range []string{
			"/v2/repository/models/m/load", "/v2/repository/models/m/load?x=y", "/v2/repository/models/m/load/", "//v2///repository/models/m//load", "/./v2/./repository/models/m/load/.",
			"/x/../v2/repository/models/m/load", "/../v2/repository/models/m/load", "/v2/repository/models/m/load/x/..", "/v2/%2e%2e/v2/repository/models/m/load", "/v2/%2E/repository/models/m/load",
			"/v2%2Frepository%2fmodels/m/load", "/v2/repository/models/a%2Fb/load", "/v2/repository/models/m/%6c%6Fad", "/v2/repository/models/x%2F..%2F..%2F../load",
			"/v2/repository/models/m/load#", "/v2/repository/models/m/load#/../../index", "http://other/v2/repository/models/m/load",
			"/v2/x%23/../repository/models/m/load#y", "/v2/repository/models/m/load;a=b", "/v2;/repository;a=b/models/m/load;c/", "/x/..;/v2/repository/models/m/load", "/v2//../repository/models/m/../load",
			"//v2/repository/models/x/../../../load", "/v2/repository/x/../../../load/",
		} {
			_, answers := r.raw(t, "POST "+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
			res, err := http.ReadResponse(answers, nil)
			if err != nil || res.StatusCode != http.StatusForbidden || res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Retry-After") != "" {
				t.Errorf("%s while %s: %v, %v", target, mode, res, err)
			}
		}
		if s := r.gate.Snapshot(); arrived.Load() != 0 || s.Held != 0 {
			t.Fatalf("%d arrived, %+v", arrived.Load(), s)
		}
	}
	r := socketRig(t, backend, func(s *Settings, _ *GateSettings) { s.Denied = DenyPaths([]string{"/v2/repository/*/load"}) })
	passing(r.gate)
	for i, target := range []string{"/v2/repository/models/m/loaf", "/v2/repository/models/m/load/x", "//v2/repository/models/m/%2E/loaf", "/v2/repository/models/m/load%23/loaf", "/v2/repository/models/m/load%3b", "/v2/repository/models/m/load%252f", "/v2/repository/index"} {
		_, answers := r.raw(t, "POST "+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 204 ") || arrived.Load() != int64(i+1) {
			t.Errorf("%s: %q, %v, %d arrived", target, line, err, arrived.Load())
		}
	}
}

func TestDeniedUploadGetsItsAnswer(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, echo), func(s *Settings, _ *GateSettings) { s.Denied = DenyPaths([]string{"/load"}) })
	for _, h2 := range []bool{false, true} {
		if h2 {
			r.useHTTP2(t)
		}
		if got := r.send(t.Context(), http.MethodPost, "/load", strings.NewReader(strings.Repeat("x", 1<<20))); got.status != http.StatusForbidden || !strings.Contains(got.body, `"path_denied"`) {
			t.Errorf("HTTP/2 %v: %+v", h2, got)
		}
	}
	until(t, "quiet", r.quiet)
}

func TestDeniedMethodsAreGRPCStatuses(t *testing.T) {
	t.Parallel()
	const service = "/inference.GRPCInferenceService/"
	r := socketRig(t, units.Address{}, func(s *Settings, _ *GateSettings) {
		s.GRPC = grpcBackend(t)
		s.Denied = DenyPaths([]string{service + "RepositoryModelLoad"})
	})
	passing(r.gate)
	conn := r.dialGRPC(t)
	for method, want := range map[string]codes.Code{"RepositoryModelLoad": codes.PermissionDenied, "RepositoryIndex": codes.OK} {
		question, reply := []byte("q"), []byte(nil)
		err := conn.Invoke(t.Context(), service+method, &question, &reply)
		if s := status.Convert(err); s.Code() != want || (want != codes.OK && !strings.Contains(s.Message(), "path_denied")) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestForwardedFollowsThePolicy(t *testing.T) {
	t.Parallel()
	said := http.Header{
		"X-Forwarded-For": {"192.0.2.1", "192.0.2.2, 192.0.2.3"}, "X-Forwarded-Host": {"outside"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {"for=192.0.2.1"},
	}
	for _, test := range []struct {
		name   string
		policy Forwarded
		said   http.Header
		peer   string
		secure bool
		want   http.Header
	}{
		{"append to nothing", ForwardedAppend, nil, "192.0.2.9:1", false, http.Header{"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Host": {"h:80"}, "X-Forwarded-Proto": {"http"}}},
		{"append", ForwardedAppend, said, "[2001:db8::1]:1", true, http.Header{
			"X-Forwarded-For": {"192.0.2.1, 192.0.2.2, 192.0.2.3, 2001:db8::1"}, "X-Forwarded-Host": {"outside"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {`for=192.0.2.1, for="[2001:db8::1]";host="h:80";proto=https`},
		}},
		{"append over a Unix socket", ForwardedAppend, said, "@", false, http.Header{
			"X-Forwarded-For": said["X-Forwarded-For"], "X-Forwarded-Host": {"outside"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {`for=192.0.2.1, for=unknown;host="h:80";proto=http`},
		}},
		{"append to nothing over a Unix socket", ForwardedAppend, nil, "", false, http.Header{"X-Forwarded-Host": {"h:80"}, "X-Forwarded-Proto": {"http"}}},
		{"replace nothing", ForwardedReplace, nil, "192.0.2.9:1", true, http.Header{"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Host": {"h:80"}, "X-Forwarded-Proto": {"https"}}},
		{"replace", ForwardedReplace, said, "192.0.2.9:1", false, http.Header{
			"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Host": {"h:80"}, "X-Forwarded-Proto": {"http"}, "Forwarded": {`for=192.0.2.9;host="h:80";proto=http`},
		}},
		{"replace over a Unix socket", ForwardedReplace, said, "@", false, http.Header{
			"X-Forwarded-Host": {"h:80"}, "X-Forwarded-Proto": {"http"}, "Forwarded": {`for=unknown;host="h:80";proto=http`},
		}},
		{"keep nothing", ForwardedKeep, nil, "192.0.2.9:1", false, http.Header{}},
		{"keep", ForwardedKeep, said, "192.0.2.9:1", true, said},
	} {
		in := &http.Request{Host: "h:80", Header: test.said.Clone(), RemoteAddr: test.peer}
		if test.secure {
			in.TLS = &tls.ConnectionState{}
		}
		out := http.Header{}
		if test.said != nil {
			out = test.said.Clone()
		}
		hop := test.policy.hop(in)
		for _, field := range hop.appendTo(nil) {
			delete(out, field.Name)
			if field.Value != "" {
				out[field.Name] = []string{field.Value}
			}
		}
		if len(out) != len(test.want) {
			t.Errorf("%s: got %v, want %v", test.name, out, test.want)
		}
		for name, want := range test.want {
			if !slices.Equal(out[name], want) {
				t.Errorf("%s: %s is %q, want %q", test.name, name, out[name], want)
			}
		}
	}
}

func TestForwardedElementQuotesNothingThatEndsAQuote(t *testing.T) {
	t.Parallel()
	if got := forwardedElement("192.0.2.1", `h";for=evil;x="`, "http"); got != "for=192.0.2.1;proto=http" {
		t.Errorf("got %s", got)
	}
}

// TestForwardedReachesTheBackend has a client whom nobody vouches for.
func TestForwardedReachesTheBackend(t *testing.T) {
	t.Parallel()
	heads := make(chan http.Header, 1)
	backend := httpBackend(t, func(_ http.ResponseWriter, r *http.Request) { heads <- r.Header })
	for policy, want := range map[Forwarded]string{
		ForwardedAppend: "192.0.2.1, 127.0.0.1|models.example|https", ForwardedReplace: "127.0.0.1|models.example|http", ForwardedKeep: "192.0.2.1||https",
	} {
		r := socketRig(t, backend, func(s *Settings, _ *GateSettings) { s.Forwarded = policy })
		open(r.gate)
		r.raw(t, "GET / HTTP/1.1\r\nHost: models.example\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nConnection: X-Forwarded-For\r\n\r\n")
		head := <-heads
		if got := head.Get("X-Forwarded-For") + "|" + head.Get("X-Forwarded-Host") + "|" + head.Get("X-Forwarded-Proto"); got != want {
			t.Errorf("%s: got %s, want %s", policy, got, want)
		}
	}
}

// TestC15ForwardedIsKeptOverUnixSocketsOnBothSides has a client whose connection has no address.
func TestC15ForwardedIsKeptOverUnixSocketsOnBothSides(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	heads := make(chan http.Header, 1)
	back, err := net.Listen("unix", folder+"/backend.sock")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header.Set("Host", r.Host)
		heads <- r.Header
	})}, back)
	address := tcp(folder + "/backend.sock")
	address.Network = "unix"
	r := socketRig(t, address, nil)
	open(r.gate)
	front, err := net.Listen("unix", folder+"/data.sock")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, r.handler.Server(), r.handler.Limit(front))
	for text, want := range map[string]string{
		"X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: outside\r\n": "192.0.2.1|https|outside|models.example",
		"": "|http|models.example|models.example",
	} {
		conn, err := net.Dial("unix", folder+"/data.sock")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: models.example\r\n"+text+"\r\n")
		head := <-heads
		shut(conn)
		got := strings.Join([]string{head.Get("X-Forwarded-For"), head.Get("X-Forwarded-Proto"), head.Get("X-Forwarded-Host"), head.Get("Host")}, "|")
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

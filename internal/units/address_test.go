package units_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestC82Addresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       units.Address
		fails      string // what the error must say; empty: none
	}{
		{name: "host and port", text: "localhost:8000", want: units.Address{Network: "tcp", Host: "localhost:8000"}},
		{name: "v4", text: "127.0.0.1:8000", want: units.Address{Network: "tcp", Host: "127.0.0.1:8000"}},
		{name: "v6", text: "[::1]:8000", want: units.Address{Network: "tcp", Host: "[::1]:8000"}},
		{name: "v6 with a zone", text: "[fe80::1%eth0]:8000", want: units.Address{Network: "tcp", Host: "[fe80::1%eth0]:8000"}},
		{name: "URL with a base", text: "http://h:80/base", want: units.Address{Network: "tcp", Host: "h:80", Base: "/base"}},
		{name: "slash at the end", text: "http://h:80/", want: units.Address{Network: "tcp", Host: "h:80"}},
		{name: "TLS", text: "https://h:8443", want: units.Address{Network: "tcp", Host: "h:8443", TLS: true}},
		{name: "the scheme's port", text: "https://h/v1/", want: units.Address{Network: "tcp", Host: "h:443", TLS: true, Base: "/v1"}},
		{name: "the scheme's port, v6", text: "http://[::1]/v1", want: units.Address{Network: "tcp", Host: "[::1]:80", Base: "/v1"}},
		{name: "escaped base", text: "http://h:80/a%2Fb", want: units.Address{Network: "tcp", Host: "h:80", Base: "/a%2Fb"}},
		{name: "leading zeros", text: "h:0080", want: units.Address{Network: "tcp", Host: "h:80"}},
		{name: "socket", text: "unix:/run/x.sock", want: units.Address{Network: "unix", Host: "/run/x.sock"}},
		{name: "socket URL", text: "unix:///run/x.sock", want: units.Address{Network: "unix", Host: "/run/x.sock"}},
		{name: "bare path", text: "/run/x.sock", fails: `parse address "/run/x.sock": the path of a socket needs unix: before it, did you mean unix:/run/x.sock?`},
		{name: "relative socket", text: "unix:run/x.sock", fails: "did you mean unix:/run/x.sock?"},
		{name: "socket URL with two slashes", text: "unix://run/x.sock", fails: "did you mean unix:/run/x.sock?"},
		{name: "socket without a path", text: "unix:", fails: "expected unix:/path"},
		{name: "socket that is a folder", text: "unix:/run/", fails: "must not end in a slash"},
		{name: "long socket", text: "unix:/" + strings.Repeat("x", 107), fails: "at most 107 bytes, this one has 108"},
		{name: "v6 without brackets", text: "::1:8000", fails: "an IPv6 address needs brackets, did you mean [::1]:8000?"},
		{name: "v6 without a port", text: "fe80::abcd", fails: "the port is missing and an IPv6 address needs brackets, expected [fe80::abcd]:port"},
		{name: "v6 in brackets without a port", text: "[::1]", fails: "the port is missing, expected [::1]:port"},
		{name: "v4 in brackets", text: "[127.0.0.1]:80", fails: "brackets are for IPv6"},
		{name: "grpc scheme", text: "grpc://h:8001", fails: "scheme grpc is not known, did you mean h:8001?"},
		{name: "grpc scheme without a port", text: "grpc://h", fails: "scheme grpc is not known, expected host:port"},
		{name: "no port", text: "localhost", fails: "the port is missing, expected localhost:port"},
		{name: "v4 without a port", text: "10.0.0.1", fails: "the port is missing, expected 10.0.0.1:port"},
		{name: "empty port", text: "localhost:", fails: "the port is missing"},
		{name: "only a port", text: "8000", fails: "did you mean localhost:8000?"},
		{name: "no host", text: ":8000", fails: "the host is missing, did you mean localhost:8000?"},
		{name: "URL without a host", text: "http://:80", fails: "the host is missing"},
		{name: "URL of one slash", text: "http:/h:80", fails: "too many colons"},
		{name: "port zero", text: "h:0", fails: "port 0 is no number from 1 to 65535"},
		{name: "port too large", text: "h:65536", fails: "port 65536 is no number from 1 to 65535"},
		{name: "named port", text: "h:http", fails: "port http is no number"},
		{name: "base without a scheme", text: "h:80/base", fails: "a base path needs a scheme, did you mean http://h:80/base?"},
		{name: "credentials", text: "http://u:p@h:80", fails: "credentials do not belong"},
		{name: "query", text: "http://h:80/?x=1", fails: "neither query nor fragment"},
		{name: "fragment", text: "http://h:80/#", fails: "neither query nor fragment"},
		{name: "dots in the base", text: "http://h:80/a/../b", fails: "must not contain . or .."},
		{name: "space", text: "local host:80", fails: "expected host:port"},
		{name: "control character", text: "h\n:80", fails: "expected host:port"},
		{name: "nothing", text: "", fails: "expected host:port, [v6]:port, http://host:port/base, https://host:port/base or unix:/path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := units.ParseAddress(test.text)
			checkParse(t, got, test.want, err, test.fails)
		})
	}
}

func TestC82ListenAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       units.Listen
		loopback   bool
		fails      string // what the error must say; empty: none
	}{
		{name: "port", text: ":9000", want: units.Listen{Network: "tcp", Host: ":9000"}},
		{name: "any port", text: ":0", want: units.Listen{Network: "tcp", Host: ":0"}},
		{name: "host", text: "localhost:9002", want: units.Listen{Network: "tcp", Host: "localhost:9002"}, loopback: true},
		{name: "v4", text: "127.0.0.5:9002", want: units.Listen{Network: "tcp", Host: "127.0.0.5:9002"}, loopback: true},
		{name: "v6", text: "[::1]:9002", want: units.Listen{Network: "tcp", Host: "[::1]:9002"}, loopback: true},
		{name: "another interface", text: "10.0.0.1:9002", want: units.Listen{Network: "tcp", Host: "10.0.0.1:9002"}},
		{name: "socket", text: "unix:/run/pl.sock", want: units.Listen{Network: "unix", Host: "/run/pl.sock"}, loopback: true},
		{name: "only a number", text: "9000", fails: "did you mean :9000?"},
		{name: "URL", text: "http://localhost:9000", fails: "did you mean localhost:9000?"},
		{name: "bare path", text: "/run/pl.sock", fails: "did you mean unix:/run/pl.sock?"},
		{name: "v6 without brackets", text: "::1:9000", fails: "did you mean [::1]:9000?"},
		{name: "port too large", text: ":70000", fails: "port 70000 is no number from 0 to 65535"},
		{name: "star", text: "*:9000", fails: "the host may have letters"},
		{name: "nothing", text: "", fails: "expected :port, host:port, [v6]:port or unix:/path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := units.ParseListen(test.text)
			checkParse(t, got, test.want, err, test.fails)
			if err == nil && got.Loopback() != test.loopback {
				t.Errorf("loopback is %t, expected %t", got.Loopback(), test.loopback)
			}
		})
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"localhost:8000", "[::1]:8000", "http://h:80/base", "https://h", "unix:/run/x.sock", "unix:///run/x.sock", "/run/x.sock", "::1:8000",
		"grpc://h", ":9000", "[fe80::1%eth0]:1", "http://h/a%2fb/", "http://[::1]", "h:00080", "http://h:/", "HTTP://H:80//x",
	} {
		f.Add(seed)
	}
	pattern, listenPattern := regexp.MustCompile(units.AddressPattern), regexp.MustCompile(units.ListenPattern)
	f.Fuzz(func(t *testing.T, text string) {
		var a units.Address
		if a.UnmarshalText([]byte(text)) == nil {
			if !pattern.MatchString(text) && !strings.HasPrefix(strings.ToLower(text), "http") {
				t.Fatalf("%q is accepted, but not by the pattern of the schema", text)
			}
			printed, _ := a.MarshalText()
			var again units.Address
			if err := again.UnmarshalText(printed); err != nil || again != a {
				t.Fatalf("%q reads as %+v, prints %q, reads again as %+v, %v", text, a, printed, again, err)
			}
		}
		var l units.Listen
		if l.UnmarshalText([]byte(text)) == nil {
			if !listenPattern.MatchString(text) {
				t.Fatalf("%q is accepted, but not by the pattern of the schema", text)
			}
			printed, _ := l.MarshalText()
			var again units.Listen
			if err := again.UnmarshalText(printed); err != nil || again != l {
				t.Fatalf("%q reads as %+v, prints %q, reads again as %+v, %v", text, l, printed, again, err)
			}
		}
	})
}

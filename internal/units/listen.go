package units

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Listen is where we listen: over TCP, on all interfaces and both IP versions when it is written :port, or on a Unix socket. The zero Listen means "not set".
type Listen struct {
	// Network is "tcp" or "unix"; empty in the zero Listen.
	Network string
	// Host is [host]:port for TCP and the absolute path for Unix. Port 0 lets the system choose.
	Host string
}

// ParseListen reads a listen address as a user writes it.
func ParseListen(text string) (Listen, error) {
	listen, reason := parseListen(text)
	if reason != "" {
		return Listen{}, fmt.Errorf("parse listen address %q: %s", shorten(text), reason)
	}

	return listen, nil
}

// parseListen returns the listen address, or why there is none.
func parseListen(text string) (l Listen, reason string) {
	if text == "" || !printable(text) {
		return Listen{}, "expected " + listenForm
	}
	if rest, ok := strings.CutPrefix(text, "unix:"); ok {
		path, reason := socketPath(rest)

		return Listen{Network: networkUnix, Host: path}, reason
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") {
		return Listen{}, socketHint(text)
	}
	if scheme, rest, isURL := strings.Cut(text, "://"); isURL {
		if _, bad := hostPort(rest, 0); bad == "" {
			return Listen{}, fmt.Sprintf("a listen address has no scheme, did you mean %s?", rest)
		}

		return Listen{}, fmt.Sprintf("scheme %s is not known here, expected %s", scheme, listenForm)
	}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return Listen{}, fmt.Sprintf("the port is not marked as one, did you mean :%s?", text)
	}
	if port, ok := strings.CutPrefix(text, ":"); ok && !strings.Contains(port, ":") {
		port, reason := portNumber(port, 0)

		return Listen{Network: networkTCP, Host: ":" + port}, reason
	}
	host, reason := hostPort(text, 0)

	return Listen{Network: networkTCP, Host: host}, reason
}

// IsZero says whether no address is set.
func (l Listen) IsZero() bool { return l == Listen{} }

// Loopback says whether only this machine, or this pod, can reach it.
func (l Listen) Loopback() bool {
	if l.Network == networkUnix {
		return true
	}
	host, _, err := net.SplitHostPort(l.Host)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)

	return strings.EqualFold(host, "localhost") || (err == nil && address.IsLoopback())
}

// String returns the form that reads back as l.
func (l Listen) String() string {
	if l.Network == networkUnix {
		return "unix:" + l.Host
	}

	return l.Host
}

// MarshalText implements [encoding.TextMarshaler].
func (l Listen) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Empty text is the zero Listen.
func (l *Listen) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Listen{}

		return nil
	}
	parsed, err := ParseListen(string(text))
	if err == nil {
		*l = parsed
	}

	return err
}

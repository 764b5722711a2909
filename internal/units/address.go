package units

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Address is where a server is dialled: over TCP or a Unix socket, with TLS or without, below a base path or at the root.
// It is written host:port, [v6]:port, http://host:port/base, https://host:port/base or unix:/path. The zero Address means "not set" and is written as nothing.
type Address struct {
	// Network is "tcp" or "unix"; empty in the zero Address.
	Network string
	// Host is host:port for TCP, with brackets around an IPv6 address, and the absolute path for Unix.
	Host string
	// TLS is true for https.
	TLS bool
	// Base is the path below which the server's API lies: "/base", escaped as in a URL, without a slash at its end; empty for the root.
	Base string
}

// Listen is where we listen: over TCP, on all interfaces and both IP versions when it is written :port, or on a Unix socket. The zero Listen means "not set".
type Listen struct {
	// Network is "tcp" or "unix"; empty in the zero Listen.
	Network string
	// Host is [host]:port for TCP and the absolute path for Unix. Port 0 lets the system choose.
	Host string
}

const (
	networkTCP  = "tcp"
	networkUnix = "unix"
)

// AddressPattern and ListenPattern are regular expressions, in the dialect of JSON schema, that every accepted text matches.
// They are looser than the parsers, for editors that help while one types.
const (
	AddressPattern = `^$|^[A-Za-z0-9._-]+:[0-9]+$|^\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]:[0-9]+$|^https?://[^\s?#@]+$|^unix:(//)?/.+$`
	ListenPattern  = `^[A-Za-z0-9._-]*:[0-9]+$|^\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]:[0-9]+$|^unix:(//)?/.+$`
)

const (
	addressForm = "host:port, [v6]:port, http://host:port/base, https://host:port/base or unix:/path"
	listenForm  = ":port, host:port, [v6]:port or unix:/path"
	// maxSocketPath is what fits into a sockaddr_un on Linux, its final zero left out.
	maxSocketPath = 107
)

// ParseAddress reads an address as a user writes it. It never guesses: what is no address in the strict sense is refused with the right form.
func ParseAddress(text string) (Address, error) {
	address, reason := parseAddress(text)
	if reason != "" {
		return Address{}, fmt.Errorf("parse address %q: %s", shorten(text), reason)
	}

	return address, nil
}

// ParseListen reads a listen address as a user writes it.
func ParseListen(text string) (Listen, error) {
	listen, reason := parseListen(text)
	if reason != "" {
		return Listen{}, fmt.Errorf("parse listen address %q: %s", shorten(text), reason)
	}

	return listen, nil
}

// parseAddress returns the address, or why there is none.
func parseAddress(text string) (a Address, reason string) {
	if text == "" || !printable(text) {
		return Address{}, "expected " + addressForm
	}
	if rest, ok := strings.CutPrefix(text, "unix:"); ok {
		path, reason := socketPath(rest)

		return Address{Network: networkUnix, Host: path}, reason
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") {
		return Address{}, socketHint(text)
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	switch {
	case isURL && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
		return parseURL(text)
	case isURL:
		reason = fmt.Sprintf("scheme %s is not known, expected %s", scheme, addressForm)
		if _, bad := hostPort(rest, 1); bad == "" {
			reason = fmt.Sprintf("scheme %s is not known, did you mean %s?", scheme, rest)
		}

		return Address{}, reason
	}
	if host, base, found := strings.Cut(text, "/"); found {
		if _, bad := hostPort(host, 1); bad == "" {
			return Address{}, fmt.Sprintf("a base path needs a scheme, did you mean http://%s/%s?", host, base)
		}
	}
	if strings.HasPrefix(text, ":") {
		if _, bad := hostPort("localhost"+text, 1); bad == "" {
			return Address{}, fmt.Sprintf("the host is missing, did you mean localhost%s?", text)
		}
	}
	host, reason := hostPort(text, 1)

	return Address{Network: networkTCP, Host: host}, reason
}

func parseURL(text string) (a Address, reason string) {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Opaque != "":
		return Address{}, "expected " + addressForm
	case parsed.User != nil:
		return Address{}, "credentials do not belong in an address, send them as a header"
	case parsed.RawQuery != "" || parsed.ForceQuery || strings.Contains(text, "#"):
		return Address{}, "an address has neither query nor fragment"
	case parsed.Hostname() == "":
		return Address{}, "the host is missing, expected " + addressForm
	}
	a = Address{Network: networkTCP, TLS: parsed.Scheme == "https", Base: strings.TrimRight(parsed.EscapedPath(), "/")}
	written := parsed.Host
	if parsed.Port() == "" { // a URL without a port is not half an address: the scheme names the port
		port := ":80"
		if a.TLS {
			port = ":443"
		}
		written = strings.TrimSuffix(written, ":") + port
	}
	a.Host, reason = hostPort(written, 1)
	if reason != "" {
		return Address{}, reason
	}
	for segment := range strings.SplitSeq(parsed.Path, "/") {
		if segment == "." || segment == ".." {
			return Address{}, "the base path must not contain . or .. segments"
		}
	}

	return a, ""
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

// hostPort checks host:port and returns it in its one form. The port must be at least minPort.
func hostPort(text string, minPort uint64) (canonical, reason string) {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return "", fmt.Sprintf("the host is missing, did you mean localhost:%s?", text)
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
		return "", fmt.Sprintf("the port is missing, expected %s:port", text)
	}
	if !strings.HasPrefix(text, "[") && strings.Count(text, ":") > 1 {
		return "", bracketHint(text)
	}
	host, port, err := net.SplitHostPort(text)
	switch {
	case err != nil && isName(text):
		return "", fmt.Sprintf("the port is missing, expected %s:port", text)
	case err != nil && strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		return "", fmt.Sprintf("the port is missing, expected %s:port", text)
	case err != nil:
		return "", "expected host:port or [v6]:port"
	}
	if strings.HasPrefix(text, "[") {
		address, err := netip.ParseAddr(host)
		if err != nil || !address.Is6() {
			return "", "brackets are for IPv6 addresses, expected [v6]:port or host:port"
		}
	} else if !isName(host) {
		return "", "the host may have letters, digits, dots, hyphens and underscores, expected host:port or [v6]:port"
	}
	port, reason = portNumber(port, minPort)
	if reason != "" {
		return "", reason
	}

	return net.JoinHostPort(host, port), ""
}

// bracketHint explains a bare IPv6 address. "::1:8000" is an address by itself as well as one with a port, hence the hint and no guess.
func bracketHint(text string) string {
	last := strings.LastIndexByte(text, ':')
	if address, err := netip.ParseAddr(text[:last]); err == nil && address.Is6() {
		if _, bad := portNumber(text[last+1:], 1); bad == "" {
			return fmt.Sprintf("an IPv6 address needs brackets, did you mean [%s]:%s?", text[:last], text[last+1:])
		}
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Is6() {
		return fmt.Sprintf("the port is missing and an IPv6 address needs brackets, expected [%s]:port", text)
	}

	return "too many colons, expected host:port or [v6]:port"
}

// portNumber checks a port and returns it without leading zeros.
func portNumber(text string, least uint64) (canonical, reason string) {
	n, err := strconv.ParseUint(text, 10, 16)
	switch {
	case text == "":
		return "", "the port is missing"
	case err != nil || n < least:
		return "", fmt.Sprintf("port %s is no number from %d to 65535", text, least)
	default:
		return strconv.FormatUint(n, 10), ""
	}
}

// socketPath reads what follows "unix:": a path, or two slashes and a path.
func socketPath(rest string) (path, reason string) {
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(authority, "/") {
			return "", fmt.Sprintf("the path of a socket is absolute, did you mean unix:/%s?", strings.TrimLeft(authority, "/"))
		}
		rest = authority
	}
	switch {
	case rest == "":
		return "", "the path of the socket is missing, expected unix:/path"
	case !strings.HasPrefix(rest, "/"):
		return "", fmt.Sprintf("the path of a socket is absolute, did you mean unix:/%s?", rest)
	case strings.HasPrefix(rest, "//"):
		return "", fmt.Sprintf("too many slashes, did you mean unix:/%s?", strings.TrimLeft(rest, "/"))
	case strings.HasSuffix(rest, "/"):
		return "", "the path of a socket must not end in a slash"
	case len(rest) > maxSocketPath:
		return "", fmt.Sprintf("the path of a socket has at most %d bytes, this one has %d", maxSocketPath, len(rest))
	}

	return rest, ""
}

func socketHint(path string) string {
	return fmt.Sprintf("the path of a socket needs unix: before it, did you mean unix:/%s?", strings.TrimLeft(path, "./"))
}

// isName says whether text is a host name or an IPv4 address, as far as its characters go.
func isName(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// printable says whether text has no spaces and no control characters.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xfffd })
}

// IsZero says whether no address is set.
func (a Address) IsZero() bool { return a == Address{} }

// String returns the shortest form that reads back as a.
func (a Address) String() string {
	switch {
	case a.IsZero():
		return ""
	case a.Network == networkUnix:
		return "unix:" + a.Host
	case a.TLS:
		return "https://" + a.Host + a.Base
	case a.Base != "":
		return "http://" + a.Host + a.Base
	default:
		return a.Host
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Empty text is the zero Address.
func (a *Address) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*a = Address{}

		return nil
	}
	parsed, err := ParseAddress(string(text))
	if err == nil {
		*a = parsed
	}

	return err
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

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *Listen) UnmarshalText(text []byte) error {
	parsed, err := ParseListen(string(text))
	if err == nil {
		*l = parsed
	}

	return err
}

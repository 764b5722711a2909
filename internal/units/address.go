package units

import (
	"fmt"
	"net/url"
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

const (
	networkTCP  = "tcp"
	networkUnix = "unix"
)

// AddressPattern and ListenPattern are regular expressions, in the dialect of JSON schema, that every accepted text matches.
// They are looser than the parsers, for editors that help while one types.
const (
	AddressPattern = `^$|^[A-Za-z0-9._-]+:[0-9]+$|^\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]:[0-9]+$|^https?://[^\s?#@]+$|^unix:(//)?/.+$`
	ListenPattern  = `^$|^[A-Za-z0-9._-]*:[0-9]+$|^\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]:[0-9]+$|^unix:(//)?/.+$`
)

const (
	addressForm = "host:port, [v6]:port, http://host:port/base, https://host:port/base or unix:/path"
	listenForm  = ":port, host:port, [v6]:port or unix:/path"
)

// ParseAddress reads an address as a user writes it. It never guesses: what is no address in the strict sense is refused with the right form.
func ParseAddress(text string) (Address, error) {
	address, reason := parseAddress(text)
	if reason != "" {
		return Address{}, fmt.Errorf("parse address %q: %s", shorten(text), reason)
	}

	return address, nil
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

package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// Forwarded is what becomes of the headers that tell where a request came from: X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto and Forwarded (RFC 7239).
type Forwarded int

const (
	// ForwardedAppend adds the client's address to X-Forwarded-For, and to Forwarded if there is one, and sets X-Forwarded-Host and X-Forwarded-Proto where
	// they are missing: whoever is in front is believed.
	ForwardedAppend Forwarded = iota
	// ForwardedReplace drops what the client says and writes what we see: for clients that nobody vouches for. Forwarded is written only in place of one.
	ForwardedReplace
	// ForwardedKeep touches nothing.
	ForwardedKeep
)

var forwardedWords = units.Names[Forwarded]{
	ForwardedAppend:  "append",
	ForwardedReplace: "replace",
	ForwardedKeep:    "keep",
}

// ForwardedValues lists every value, in order.
func ForwardedValues() []Forwarded { return forwardedWords.Values() }

// String returns the word used in the configuration.
func (f Forwarded) String() string { return forwardedWords.Of(f) }

// MarshalText implements [encoding.TextMarshaler].
func (f Forwarded) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (f *Forwarded) UnmarshalText(text []byte) error {
	return forwardedWords.Parse("listen.forwarded", text, f)
}

// forwardedNames are the headers that a policy may change, in canonical form.
var forwardedNames = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"}

// hop is what a policy changes in the headers of one request: for each of forwardedNames, in their order, whether the client's lines of that name give way,
// and the one value that takes their place; an empty one removes them.
type hop [len(forwardedNames)]struct {
	value   string
	changed bool
}

// appendTo adds what takes the place of the client's lines.
func (h *hop) appendTo(fields []upstream.Field) []upstream.Field {
	for i, name := range forwardedNames {
		if h[i].changed {
			fields = append(fields, upstream.Field{Name: name, Value: h[i].value})
		}
	}

	return fields
}

// keep adds the client's lines where nothing takes their place: one who names them in Connection must not be able to hide where a request came from.
func (h *hop) keep(fields []upstream.Field, said http.Header) []upstream.Field {
	for i, name := range forwardedNames {
		if h[i].changed {
			continue
		}
		for _, value := range said[name] {
			fields = append(fields, upstream.Field{Name: name, Value: value})
		}
	}

	return fields
}

func (h *hop) set(i int, value string) { h[i].value, h[i].changed = value, true }

// hop returns what the policy changes in the headers of in.
func (f Forwarded) hop(in *http.Request) (h hop) {
	if f == ForwardedKeep {
		return h
	}
	client := clientHost(in)
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	const byFor, byHost, byProto, byForwarded = 0, 1, 2, 3
	trust := f == ForwardedAppend
	said := func(i int) []string { return in.Header[forwardedNames[i]] }
	switch prior := said(byFor); {
	case trust && len(prior) > 0 && client == "": // over a Unix socket the client has no address, and what others said stays
	case trust && len(prior) > 0:
		h.set(byFor, strings.Join(prior, ", ")+", "+client)
	case client != "" || len(prior) > 0:
		h.set(byFor, client)
	}
	if !trust || said(byHost) == nil {
		h.set(byHost, in.Host)
	}
	if !trust || said(byProto) == nil {
		h.set(byProto, proto)
	}
	if prior := said(byForwarded); len(prior) > 0 {
		element := forwardedElement(client, in.Host, proto)
		if trust {
			element = strings.Join(prior, ", ") + ", " + element
		}
		h.set(byForwarded, element)
	}

	return h
}

// clientHost is the client's IP address; empty where it has none.
func clientHost(in *http.Request) string {
	host, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		return ""
	}

	return host
}

// forwardedElement is our own element of Forwarded.
func forwardedElement(client, host, proto string) string {
	switch address, err := netip.ParseAddr(client); {
	case err != nil:
		client = "unknown"
	case address.Is6():
		client = `"[` + client + `]"`
	}
	element := "for=" + client
	if host != "" && !strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
		element += `;host="` + host + `"`
	}

	return element + ";proto=" + proto
}

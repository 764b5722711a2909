package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// authority is what stands for the backend in a URL. A socket's path is none.
func authority(to units.Address) string {
	if to.Network == "unix" {
		return "localhost"
	}

	return to.Host
}

// target returns the very bytes of the client's path and query below base: a parsed URL forgets how its path was escaped.
func target(in *http.Request, base string) string {
	text := in.RequestURI
	if text == "*" {
		return text
	}
	if !strings.HasPrefix(text, "/") { // in absolute form, as to a forward proxy
		if _, after, ok := strings.Cut(text, "://"); ok {
			text = after
		}
		if at := strings.IndexAny(text, "/?"); at < 0 {
			text = "/"
		} else if text = text[at:]; text[0] == '?' {
			text = "/" + text
		}
	}
	if base == "" {
		return text
	}

	return base + text
}

// outgoing returns the fields that the request has for the backend besides its own headers, each in place of those of its name; an empty value only takes them away.
func (a *attempt) outgoing() []upstream.Field {
	x, in := a.x, a.x.r
	hop := x.h.settings.Forwarded.hop(in)
	fields := hop.appendTo(a.fields[:0])
	if in.Header["Connection"] != nil {
		fields = hop.keep(fields, in.Header)
	}
	for _, passed := range in.Header[loopHeader] {
		fields = append(fields, upstream.Field{Name: loopHeader, Value: passed})
	}
	fields = append(fields, upstream.Field{Name: loopHeader, Value: x.h.instance})
	if _, ok := in.Header["X-Request-Id"]; !ok || in.Header["Connection"] != nil { // one who names it there cannot make it vanish
		fields = append(fields, upstream.Field{Name: "X-Request-Id", Value: x.requestID()})
	}

	return x.span.inject(x.passOn(fields), in.Header)
}

// requestID returns the caller's request id, or one that is made up at the first call.
func (x *exchange) requestID() string {
	if x.id == "" {
		x.id = x.r.Header.Get("X-Request-ID")
	}
	if x.id == "" {
		var random [16]byte
		binary.NativeEndian.PutUint64(random[:8], rand.Uint64()) //nolint:gosec // no secret
		binary.NativeEndian.PutUint64(random[8:], rand.Uint64()) //nolint:gosec // as above
		var text [2 * len(random)]byte
		hex.Encode(text[:], random[:])
		x.id = string(text[:])
	}

	return x.id
}

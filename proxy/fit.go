package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// unfit says why a request is refused whatever the state.
func (h *Handler) unfit(x *exchange) (reason Reason, refused bool) {
	r := x.r
	switch {
	case r.Method == http.MethodConnect:
		return NoTunnels, true
	case slices.Contains(r.Header[loopHeader], h.instance):
		return Loop, true
	case x.overH2() && r.Header["Upgrade"] != nil:
		return NoTunnels, true // HTTP/2 has none of these
	}
	// HTTP/2 lets bytes through that would end the request line or the host of HTTP/1. A target such as a:80 has a scheme and neither authority nor path.
	if !printable(r.RequestURI) || !fitHost(r.Host) || (r.URL.Scheme != "" && r.URL.Host == "") {
		return BadRequest, true
	}
	if !sameLength(r) {
		return BadRequest, true
	}
	if h.denied(r) {
		return PathDenied, true
	}

	return h.oversized(r, x.grpc)
}

// sameLength says whether the length that r's head announces is the one that net/http goes by. To its HTTP/2 "5, 5" means no body, which comes nevertheless.
func sameLength(r *http.Request) bool {
	said := r.Header["Content-Length"]
	if len(said) == 0 {
		return true
	}
	length, err := strconv.ParseUint(said[0], 10, 63)

	return err == nil && len(said) == 1 && int64(length) == r.ContentLength
}

// fitHost says whether host is the name or the address of a host, perhaps with a port. None at all is fit as well.
func fitHost(host string) bool {
	name, port, _ := strings.Cut(host, ":")
	if address, after, ok := strings.Cut(host, "]"); ok {
		name, port, _ = strings.Cut(after, ":")
		if name != "" || len(address) < len("[:") || address[0] != '[' || strings.Trim(address[1:], "0123456789abcdefABCDEF:.") != "" {
			return false
		}
	}

	return printable(name) && !strings.ContainsAny(name, `/?#@\<>"[]^{|}`+"`") && strings.Trim(port, "0123456789") == ""
}

// printable says whether text has neither spaces nor bytes that ASCII does not show.
func printable(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' {
			return false
		}
	}

	return true
}

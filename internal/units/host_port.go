package units

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

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

// isName says whether text is a host name or an IPv4 address, as far as its characters go.
func isName(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

package status

import (
	"net"
	"net/netip"
	"strings"
)

// isLoopbackHost tells whether a Host header names this machine itself. A page in a browser that reaches the port under a name of its own, by rebinding that name's address, does not.
func isLoopbackHost(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	} else if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		name, bracketed = strings.CutSuffix(inner, "]")
		if !bracketed {
			return false
		}
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)

	return err == nil && ip.Unmap().IsLoopback()
}

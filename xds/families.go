package xds

import "net"

// Families says which IP versions there are. An address of the other version in a resource would be refused, or reach nobody.
type Families struct{ IPv4, IPv6 bool }

const (
	loopback4 = "127.0.0.1"
	loopback6 = "::1"
)

// LocalFamilies looks which there are on this machine, or in this pod, whose network our neighbours share.
func LocalFamilies() Families {
	return Families{IPv4: exists(loopback4), IPv6: exists(loopback6)}
}

func exists(host string) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0")) //nolint:noctx // it looks nothing up
	if err != nil {
		return false
	}
	_ = listener.Close()

	return true
}

// loopback is the address at which neighbours reach what listens everywhere.
func (f Families) loopback() string {
	if f.IPv4 || !f.IPv6 {
		return loopback4
	}

	return loopback6
}

// everywhere is the address that means all interfaces.
func (f Families) everywhere() string {
	if f.IPv6 {
		return "::"
	}

	return "0.0.0.0"
}

package xds

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// spot is an address as xDS has it: the literal of an IP address and a port, or the path of a Unix socket. Names are resolved nowhere on this way.
type spot struct {
	ip   string
	port uint32
	path string
}

// bound is where something can listen that was told to listen there.
func bound(listen units.Listen, families Families) (spot, error) {
	return place(listen, families, families.everywhere())
}

// reached is where neighbours reach what listens there.
func reached(listen units.Listen, families Families) (spot, error) {
	return place(listen, families, families.loopback())
}

// place puts an address in place of no host, or of one that means all interfaces.
func place(listen units.Listen, families Families, anywhere string) (spot, error) {
	if listen.Network == "unix" {
		return spot{path: listen.Host}, nil
	}
	host, text, err := net.SplitHostPort(listen.Host)
	if err != nil {
		return spot{}, fmt.Errorf("read address: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return spot{}, fmt.Errorf("read port: %w", err)
	}
	address, err := netip.ParseAddr(host)
	switch {
	case host == "" || host == netip.IPv6Unspecified().String():
		host = anywhere
	case strings.EqualFold(host, "localhost"):
		host = families.loopback()
	case err != nil:
		return spot{}, fmt.Errorf("write %s into a resource: expected an IP address, localhost or a Unix socket, got a name", listen)
	case address.IsUnspecified() && !netip.MustParseAddr(anywhere).IsUnspecified():
		host = loopback4
	}

	return spot{ip: host, port: uint32(port)}, nil
}

// proto writes it. Where it means all interfaces of both IP versions it says so, since Envoy takes :: for IPv6 alone.
func (s spot) proto() *corev3.Address {
	if s.path != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: s.path}}}
	}

	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       s.ip,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: s.port},
		Ipv4Compat:    s.ip == "::",
	}}}
}

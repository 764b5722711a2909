package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// listenAt opens a socket where a user wrote it: at :port for both IP versions, and also where one of them is absent.
//
// Left to itself net takes IPv4 alone for :port where 127.0.0.1 does not exist, though there IPv6 may be all there is, and for a name with addresses of both
// versions, such as localhost, its IPv4 address.
func listenAt(ctx context.Context, address units.Listen) (net.Listener, error) {
	if address.Network != "tcp" {
		return (&net.ListenConfig{}).Listen(ctx, address.Network, address.Host)
	}
	if strings.HasPrefix(address.Host, ":") {
		both := net.ListenConfig{Control: acceptIPv4}
		if listener, err := both.Listen(ctx, "tcp6", address.Host); err == nil || !absent(err) {
			return listener, err
		}
	}
	var plain net.ListenConfig
	listener, err := plain.Listen(ctx, "tcp", address.Host)
	if absent(err) {
		if other, otherErr := plain.Listen(ctx, "tcp6", address.Host); otherErr == nil {
			return other, nil
		}
	}

	return listener, err
}

// acceptIPv4 makes an IPv6 socket take connections over IPv4 as well.
func acceptIPv4(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	})

	return errors.Join(err, failed)
}

// absent says whether there is no address of the IP version that was asked for.
func absent(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}

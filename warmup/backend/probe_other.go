//go:build !linux

package backend

import "net/netip"

func probeTCP(netip.AddrPort) error { return errNoProbe }

func probeUnix(string) error { return errNoProbe }

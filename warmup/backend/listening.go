package backend

import (
	"context"
	"errors"
	"net/netip"
	"strings"
)

// Listening returns nil when something accepts connections at the backend's address, and an error that is ErrNotYet otherwise. On
// loopback and Unix sockets it costs a few microseconds, so that it can be asked hundreds of times a second.
func (c *Client) Listening(ctx context.Context) error {
	err := c.listening(ctx)
	if err == nil {
		return nil
	}

	return &Error{Act: "connect to " + c.settings.Address, Kind: ErrNotYet, Err: err}
}

func (c *Client) listening(ctx context.Context) error {
	var err error
	switch {
	case c.settings.DialContext == nil && c.settings.Network == "unix":
		err = probeUnix(c.settings.Address)
	case len(c.loopback) > 0:
		for _, address := range c.loopback {
			if err = probeTCP(address); err == nil {
				return nil
			}
		}
	default:
		err = errNoProbe
	}
	if !errors.Is(err, errNoProbe) {
		return err
	}
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return err
	}

	return conn.Close()
}

// cheap says that Listening needs no real dial.
func (c *Client) cheap() bool {
	return len(c.loopback) > 0 || (c.settings.DialContext == nil && c.settings.Network == "unix")
}

// errNoProbe means that this address or system needs a real dial.
var errNoProbe = errors.New("no cheap probe")

// loopbacks returns the loopback addresses that address stands for; none if it is, or may be, anything else.
func loopbacks(address string) []netip.AddrPort {
	if exact, err := netip.ParseAddrPort(address); err == nil {
		if exact.Addr().IsLoopback() {
			return []netip.AddrPort{exact}
		}

		return nil
	}
	port, ok := strings.CutPrefix(address, "localhost:")
	if !ok {
		return nil
	}
	var found []netip.AddrPort
	for _, host := range []string{"127.0.0.1:", "[::1]:"} {
		if exact, err := netip.ParseAddrPort(host + port); err == nil {
			found = append(found, exact)
		}
	}

	return found
}

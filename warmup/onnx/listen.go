package onnx

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// Listen listens on host:port, or on unix:/path. A socket that a worker left behind when it was killed is taken over; one
// that somebody answers on is not.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	path, local := strings.CutPrefix(address, "unix:")
	if !local {
		listener, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}

		return listener, nil
	}
	listener, err := config.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		listener, err = config.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}

	return listener, nil
}

// abandoned says whether path is a socket that nobody listens on.
func abandoned(ctx context.Context, path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}

	return errors.Is(err, syscall.ECONNREFUSED)
}

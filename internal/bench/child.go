package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
)

// addresses are where a participant listens, for HTTP/1.1 and for gRPC.
type addresses struct {
	Plain string `json:"plain"`
	GRPC  string `json:"grpc"`
}

// child is what the bench runs of itself in another process.
type child func(ctx context.Context, arguments []string, in io.Reader, out io.Writer) error

var children = map[string]child{"origin": runOrigin, "floor": runFloor, "load": runLoad}

// runOrigin serves until in ends.
func runOrigin(ctx context.Context, _ []string, in io.Reader, out io.Writer) error {
	plain, err := listenAnywhere(ctx)
	if err != nil {
		return err
	}
	second, err := listenAnywhere(ctx)
	if err != nil {
		return err
	}
	o := newOrigin()
	go func() { _ = o.serve(ctx, plain) }()
	go func() { _ = newEchoServer().Serve(second) }()

	return announce(in, out, addresses{plain.Addr().String(), second.Addr().String()})
}

// runFloor proxies to the two addresses until in ends.
func runFloor(ctx context.Context, arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) != 2 {
		return fmt.Errorf("floor: expected the addresses of the origin for HTTP and gRPC, got %q", arguments)
	}
	listener, err := listenAnywhere(ctx)
	if err != nil {
		return err
	}
	go func() { _ = newFloor(arguments[0], arguments[1]).Serve(listener) }()

	return announce(in, out, addresses{listener.Addr().String(), listener.Addr().String()})
}

// runLoad does the job that in tells.
func runLoad(ctx context.Context, _ []string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	r, err := perform(ctx, j)
	if err != nil {
		return err
	}

	return json.NewEncoder(out).Encode(r)
}

func listenAnywhere(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}

	return listener, nil
}

// announce says where a child listens and returns when its parent is gone or wants no more of it.
func announce(in io.Reader, out io.Writer, at addresses) error {
	if err := json.NewEncoder(out).Encode(at); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)

	return err
}

// self is how this program is started once more.
func self(arguments ...string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}

	return append([]string{program}, arguments...), nil
}

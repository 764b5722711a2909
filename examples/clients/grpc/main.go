// Command grpc is a gRPC server with reflection, and a client that knows nothing of it but what reflection tells, built with grpc-go.
// It refuses to know Pilotlight: "call" talks to whatever address it is given, so the same calls can be made directly.
//
//	grpc serve ADDRESS    serves grpc.testing.TestService with reflection until it is interrupted
//	grpc held ADDRESS     makes one call, as a client that comes before the server is up
//	grpc call ADDRESS     lists the services by reflection, then calls a unary and two streaming methods of one
//
// The calls print a line for each thing checked: the word "check", a name, "ok" or "failed", and what was seen, with tabs in between.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	if len(arguments) != 2 {
		return fmt.Errorf("read arguments: got %d, expected a command (serve, held or call) and an address", len(arguments))
	}
	switch command, address := arguments[0], arguments[1]; command {
	case "serve":
		return serve(ctx, address)
	case "held":
		return callHeld(ctx, address, out)
	case "call":
		return callAll(ctx, address, out)
	default:
		return fmt.Errorf("read arguments: got command %q, expected serve, held or call", command)
	}
}

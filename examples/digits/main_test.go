package digits_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/onnx"
)

// serveEnv makes the test binary a lazy worker for the model that it names: what a model costs is only seen in a process of
// its own.
const serveEnv = "DIGITS_TEST_SERVE"

func TestMain(m *testing.M) {
	if path := os.Getenv(serveEnv); path != "" {
		if err := serve(path); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serve(path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := onnx.NewServer(onnx.Settings{
		Models: []onnx.Model{{Name: "digits", Path: path}}, Lazy: true, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	listener, err := onnx.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, listener.Addr())

	return server.Serve(ctx, listener)
}

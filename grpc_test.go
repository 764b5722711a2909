package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

// counter is a gRPC server that counts the calls since it was started.
type counter struct {
	inference.UnimplementedGRPCInferenceServiceServer

	calls atomic.Int64
}

func (c *counter) ModelInfer(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	c.calls.Add(1)

	return &inference.ModelInferResponse{}, nil
}

// listenGRPC starts a counter at an address, and returns what ends it.
func listenGRPC(t *testing.T, address string) (c *counter, stop func()) {
	t.Helper()
	c = &counter{}
	server := grpc.NewServer()
	inference.RegisterGRPCInferenceServiceServer(server, c)
	reflection.Register(server)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop = sync.OnceFunc(func() {
		server.Stop()
		serving.Wait()
	})
	t.Cleanup(stop)

	return c, stop
}

// TestAGRPCServerThatRestartsIsWarmedAgain has a server that speaks nothing but gRPC, and is recognised by the sample alone.
func TestAGRPCServerThatRestartsIsWarmedAgain(t *testing.T) {
	p, address := freePorts(t), freeAddress(t)
	sample := sampleFile(t, "/inference.GRPCInferenceService/ModelInfer\n\n{\"modelName\": \"m\"}\n")
	config := p.configure(t, "grpc: '"+address+"'", "warmup: {sample: '"+sample+"'}\n")
	first, stop := listenGRPC(t, address)
	start(t, "run", "-c", config)
	until(t, p.readyz(), http.StatusOK)
	if first.calls.Load() < 10 {
		t.Errorf("warm after %d calls", first.calls.Load())
	}
	if _, body := get(t, "http://"+p.admin+"/statusz"); !strings.Contains(body, `"converged"`) || !strings.Contains(body, `"grpc"`) {
		t.Errorf("/statusz: %s", body)
	}
	stop()
	until(t, p.readyz(), http.StatusServiceUnavailable)
	second, _ := listenGRPC(t, address)
	until(t, p.readyz(), http.StatusOK)
	if second.calls.Load() < 10 {
		t.Errorf("warm again after %d calls", second.calls.Load())
	}
}

// TestGRPCCallsAreReplayed has a call that is answered, and the control in which the server knows no such method.
func TestGRPCCallsAreReplayed(t *testing.T) {
	address := freeAddress(t)
	server, _ := listenGRPC(t, address)
	for method, exit := range map[string]int{"ModelInfer": 0, "ModelMetadata": exitFailure} {
		dir := t.TempDir()
		lines, config := filepath.Join(dir, "warm.jsonl"), filepath.Join(dir, "pilotlight.yaml")
		for path, text := range map[string]string{
			// Field 1 is the name of the model.
			lines: `{"path": "/inference.GRPCInferenceService/` + method + `", "grpc": true, "body_base64": "CgFt"}` + "\n",
			config: "version: 1\nbackend: {type: grpc, grpc: '" + address + "'}\nmodels: [{name: default, required: false}]\n" +
				"warmup: {steps: [{name: recorded, retries: 0, replay: {files: ['" + lines + "']}}]}\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, complained bytes.Buffer
		got := execute(&stdio{out: &out, err: &complained}, []string{"warm", "-c", config})
		if got != exit || (exit != 0 && !strings.Contains(complained.String(), "UNIMPLEMENTED")) {
			t.Errorf("%s: exit code %d, expected %d: %s", method, got, exit, complained.String())
		}
	}
	if calls := server.calls.Load(); calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

package backend_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpcmeta "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

const (
	sampleCall = "/inference.GRPCInferenceService/ModelInfer\nx-api: 2\n\n{\"modelName\": \"m\", \"inputs\": [{\"name\": \"x\", \"shape\": [\"2\"]}]}\n"
	healthCall = "/grpc.health.v1.Health/"
)

// application is a real gRPC server whose calls a test answers.
type application struct {
	inference.UnimplementedGRPCInferenceServiceServer

	health *health.Server
	infer  func(ctx context.Context, r *inference.ModelInferRequest) (*inference.ModelInferResponse, error)

	mu    sync.Mutex
	seen  grpcmeta.MD
	asked *inference.ModelInferRequest
}

func (a *application) ModelInfer(ctx context.Context, r *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	a.mu.Lock()
	a.seen, _ = grpcmeta.FromIncomingContext(ctx)
	a.asked = r
	a.mu.Unlock()
	if a.infer != nil {
		return a.infer(ctx, r)
	}

	return &inference.ModelInferResponse{ModelName: r.GetModelName(), Outputs: []*inference.ModelInferResponse_InferOutputTensor{{
		Name: "y", Contents: &inference.InferTensorContents{Fp32Contents: []float32{0.5}},
	}}}, nil
}

// offers says what the server registers besides its service.
type offers struct{ v1, v1alpha, health bool }

func call(t *testing.T, offered offers, options ...grpc.ServerOption) (*application, *backend.Client) {
	t.Helper()
	a := &application{health: health.NewServer()}
	server := grpc.NewServer(options...)
	inference.RegisterGRPCInferenceServiceServer(server, a)
	if offered.health {
		grpc_health_v1.RegisterHealthServer(server, a.health)
	}
	if offered.v1 {
		reflection.RegisterV1(server)
	}
	if offered.v1alpha {
		grpc_reflection_v1alpha.RegisterServerReflectionServer(server, reflection.NewServer(reflection.ServerOptions{Services: server}))
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	client, err := backend.NewClient(backend.ClientSettings{
		Network: "tcp", Address: "localhost:1", GRPC: backend.Peer{Network: "unix", Address: listener.Addr().String()},
		Headers: func() (http.Header, error) { return http.Header{"Authorization": {"Bearer secret"}}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}

	return a, client
}

func parse(t *testing.T, text string) *backend.Sample {
	t.Helper()
	sample, err := backend.ParseSample([]byte(text))
	if err != nil {
		t.Fatal(err)
	}

	return sample
}

// warmOnce describes, asks and checks.
func warmOnce(t *testing.T, client *backend.Client, options backend.Options, expect backend.Expect) error {
	t.Helper()
	dialect := backend.NewGRPC(client, options)
	model, err := dialect.Describe(t.Context(), backend.DefaultModel)
	if err != nil {
		return err
	}
	request, err := dialect.Request(model, backend.Shape{}, 1)
	if err != nil {
		return err
	}
	answer, err := client.Do(t.Context(), request)
	if err != nil {
		return err
	}
	if answer.Timing.FirstByte <= 0 || answer.Timing.Total < answer.Timing.FirstByte {
		t.Errorf("timing %+v", answer.Timing)
	}

	return dialect.Check("infer", answer, expect)
}

// descriptors writes a descriptor set of the service and what it imports.
func descriptors(t *testing.T, file protoreflect.FileDescriptor) *backend.Schema {
	t.Helper()
	content, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(file)}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "set")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	schema, err := backend.ReadSchema(path)
	if err != nil {
		t.Fatal(err)
	}

	return schema
}

func TestGRPCIsWarmedByTheSample(t *testing.T) {
	t.Parallel()
	message, err := proto.Marshal(&inference.ModelInferRequest{ModelName: "m", Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Shape: []int64{2}}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"raw": strings.Split(sampleCall, "\n\n")[0] + "\n\n@message\n", "message": string(message)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := backend.ReadSample(filepath.Join(dir, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	set := descriptors(t, inference.File_inference_proto)
	tests := []struct {
		name    string
		offered offers
		options backend.Options
		says    string
	}{
		{"reflection", offers{v1: true}, backend.Options{Sample: parse(t, sampleCall)}, ""},
		{"reflection of the older version alone", offers{v1alpha: true}, backend.Options{Sample: parse(t, sampleCall)}, ""},
		{"descriptors", offers{}, backend.Options{Sample: parse(t, sampleCall), Schema: set}, ""},
		{"a message as it is", offers{}, backend.Options{Sample: raw}, ""},
		{"a message as it is, by reflection", offers{v1: true}, backend.Options{Sample: raw}, ""},
		{"neither", offers{}, backend.Options{Sample: parse(t, sampleCall)}, "warmup.descriptors"},
		{"no sample", offers{v1: true}, backend.Options{}, "warmup.sample"},
		{"no such service", offers{v1: true}, backend.Options{Sample: parse(t, "/a.B/C\n\n{}")}, "no such service"},
		{"no such service in the descriptors", offers{}, backend.Options{Sample: parse(t, "/a.B/C\n\n{}"), Schema: set}, "no service a.B"},
		{"no such method", offers{v1: true}, backend.Options{Sample: parse(t, "/inference.GRPCInferenceService/Infer\n\n{}")}, "expected one of"},
		{"no such field", offers{v1: true}, backend.Options{Sample: parse(t, "/inference.GRPCInferenceService/ModelInfer\n\n{\"x\": 1}")}, "unknown field \"x\""},
		{"a method that streams", offers{v1: true, health: true}, backend.Options{Sample: parse(t, healthCall+"Watch\n\n{}")}, "method /grpc.health.v1.Health/Watch streams"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, client := call(t, test.offered)
			for range 2 {
				err := warmOnce(t, client, test.options, backend.Expect{Finite: true})
				if test.says != "" {
					if !errors.Is(err, backend.ErrNoRequest) || !strings.Contains(err.Error(), test.says) {
						t.Errorf("got %v, expected one that says %q", err, test.says)
					}

					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if a.asked.GetModelName() != "m" || a.asked.GetInputs()[0].GetShape()[0] != 2 {
				t.Errorf("the server got %v", a.asked)
			}
			for name, want := range map[string]string{"x-api": "2", "authorization": "Bearer secret", strings.ToLower(backend.SyntheticHeader): "1"} {
				if got := a.seen.Get(name); len(got) != 1 || got[0] != want {
					t.Errorf("metadata %s is %v, expected %s", name, got, want)
				}
			}
		})
	}
}

// TestGRPCUsesAConnectionForEachCall has calls that wait for one another, so that they would share a connection if they could.
func TestGRPCUsesAConnectionForEachCall(t *testing.T) {
	t.Parallel()
	const calls = 4
	a := &application{}
	var together sync.WaitGroup
	together.Add(calls)
	a.infer = func(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		together.Done()
		together.Wait()

		return &inference.ModelInferResponse{}, nil
	}
	tcp, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	counted := &counting{Listener: tcp}
	server := grpc.NewServer()
	inference.RegisterGRPCInferenceServiceServer(server, a)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(counted) })
	defer serving.Wait()
	defer server.Stop()
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: tcp.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	options := backend.Options{Sample: parse(t, sampleCall), Schema: descriptors(t, inference.File_inference_proto)}
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			if err := warmOnce(t, client, options, backend.Expect{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := counted.count(); got != calls {
		t.Errorf("%d calls came over %d connections", calls, got)
	}
}

type counting struct {
	net.Listener

	mu sync.Mutex
	n  int
}

func (c *counting) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}

	return connection, err
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.n
}

func TestGRPCStatusesMean(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code codes.Code
		want error
	}{
		{codes.OK, nil},
		{codes.Unavailable, backend.ErrNotYet},
		{codes.NotFound, backend.ErrNotYet},
		{codes.ResourceExhausted, backend.ErrBusy},
		{codes.Unauthenticated, backend.ErrCredentialsRefused},
		{codes.PermissionDenied, backend.ErrCredentialsRefused},
		{codes.InvalidArgument, backend.ErrRequestRefused},
		{codes.Unimplemented, backend.ErrNotOffered},
		{codes.Internal, backend.ErrBadAnswer},
		{codes.Code(77), backend.ErrBadAnswer},
	}
	for _, test := range tests {
		t.Run(test.code.String(), func(t *testing.T) {
			t.Parallel()
			a, client := call(t, offers{v1: true})
			a.infer = func(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
				return &inference.ModelInferResponse{}, status.Error(test.code, "für 100%")
			}
			err := warmOnce(t, client, backend.Options{Sample: parse(t, sampleCall)}, backend.Expect{})
			if !errors.Is(err, test.want) || (test.want != nil && test.code < 17 && !strings.Contains(err.Error(), "für 100%")) {
				t.Errorf("got %v, expected %v", err, test.want)
			}
		})
	}
}

func TestGRPCAnswersAreChecked(t *testing.T) {
	t.Parallel()
	answer := func(value float32) func(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		return func(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
			return &inference.ModelInferResponse{Outputs: []*inference.ModelInferResponse_InferOutputTensor{{
				Name: "y", Contents: &inference.InferTensorContents{Fp32Contents: []float32{0, value}},
			}}}, nil
		}
	}
	golden := []byte(`{"outputs":[{"contents":{"fp32Contents":[0,0.5]}}]}`)
	tests := []struct {
		name   string
		value  float32
		expect backend.Expect
		says   string
	}{
		{"finite", 1, backend.Expect{Finite: true}, ""},
		{"not a number", float32(math.NaN()), backend.Expect{Finite: true}, ".outputs[0].contents.fp32_contents[1] is no finite number"},
		{"infinite", float32(math.Inf(-1)), backend.Expect{Finite: true}, "is no finite number"},
		{"infinite, and that is all right", float32(math.Inf(1)), backend.Expect{}, ""},
		{"a path", 1, backend.Expect{JSON: map[string]string{"outputs.0.name": "y"}}, ""},
		{"another value at a path", 1, backend.Expect{JSON: map[string]string{"outputs.0.name": "z"}}, "expected z at outputs.0.name, got y"},
		{"the golden answer", 0.5004, backend.Expect{Equals: golden, Tolerance: 0.001}, ""},
		{"another answer", 0.6, backend.Expect{Equals: golden, Tolerance: 0.001}, "expected 0.5 at outputs.0.contents.fp32Contents.1, got 0.6"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, client := call(t, offers{v1: true})
			a.infer = answer(test.value)
			err := warmOnce(t, client, backend.Options{Sample: parse(t, sampleCall)}, test.expect)
			if (test.says == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, expected one that says %q", err, test.says)
			}
		})
	}
}

// TestC09LargeMessages has an answer beyond the 4 MiB that gRPC clients take unless told otherwise, and the control in which our own limit is lower.
func TestC09LargeMessages(t *testing.T) {
	t.Parallel()
	a, client := call(t, offers{v1: true}, grpc.MaxRecvMsgSize(64<<20))
	a.infer = func(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		return &inference.ModelInferResponse{RawOutputContents: [][]byte{make([]byte, 33<<20)}}, nil
	}
	if err := warmOnce(t, client, backend.Options{Sample: parse(t, sampleCall)}, backend.Expect{Finite: true}); err != nil {
		t.Error(err)
	}
	answer := backend.Answer{Status: http.StatusOK, Body: make([]byte, 100), Truncated: true}
	if err := backend.NewGRPC(nil, backend.Options{}).Check("infer", answer, backend.Expect{}); !errors.Is(err, backend.ErrBadAnswer) || !strings.Contains(err.Error(), "longer than 100 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestGRPCAnswersWithoutAStatusAreNone(t *testing.T) {
	t.Parallel()
	head := http.Header{"Content-Type": {"application/grpc"}}
	ended := http.Header{"Grpc-Status": {"0"}}
	for name, test := range map[string]struct {
		answer backend.Answer
		want   error
		says   string
	}{
		"good":              {backend.Answer{Status: 200, Header: head, Trailer: ended, Body: []byte{0, 0, 0, 0, 0}}, nil, ""},
		"no trailers":       {backend.Answer{Status: 200, Header: head, Body: []byte{0, 0, 0, 0, 0}}, backend.ErrBadAnswer, "without grpc-status"},
		"no gRPC":           {backend.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/html"}}}, backend.ErrNotRecognised, "text/html"},
		"a gateway's":       {backend.Answer{Status: 503}, backend.ErrBusy, "503"},
		"nothing in it":     {backend.Answer{Status: 200, Header: head, Trailer: ended}, backend.ErrBadAnswer, "0 messages"},
		"half a message":    {backend.Answer{Status: 200, Header: head, Trailer: ended, Body: []byte{0, 0, 0, 0, 9, 1}}, backend.ErrBadAnswer, "its head says 9"},
		"half a head":       {backend.Answer{Status: 200, Header: head, Trailer: ended, Body: []byte{0, 0}}, backend.ErrBadAnswer, "2 bytes after message 0"},
		"compressed":        {backend.Answer{Status: 200, Header: head, Trailer: ended, Body: []byte{1, 0, 0, 0, 0}}, backend.ErrBadAnswer, "compressed"},
		"a status of words": {backend.Answer{Status: 200, Header: head, Trailer: http.Header{"Grpc-Status": {"fine"}}}, backend.ErrBadAnswer, "fine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := backend.NewGRPC(nil, backend.Options{}).Check("infer", test.answer, backend.Expect{})
			if !errors.Is(err, test.want) || (test.want != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, expected %v that says %q", err, test.want, test.says)
			}
		})
	}
}

func TestGRPCReadiness(t *testing.T) {
	t.Parallel()
	const own = "inference.GRPCInferenceService"
	serving, not := grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	denied := grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.Unauthenticated, "no token")
	})
	tests := []struct {
		name    string
		offered offers
		states  map[string]grpc_health_v1.HealthCheckResponse_ServingStatus
		options []grpc.ServerOption
		want    error
	}{
		{"no health service", offers{}, nil, nil, nil},
		{"the server serves", offers{health: true}, nil, nil, nil},
		{"the server does not", offers{health: true}, map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{"": not}, nil, backend.ErrNotYet},
		{"the service does not, though the server does", offers{health: true}, map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{own: not}, nil, backend.ErrNotYet},
		{"the service does, though the server does not", offers{health: true}, map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{"": not, own: serving}, nil, nil},
		{"credentials", offers{health: true}, nil, []grpc.ServerOption{denied}, backend.ErrCredentialsRefused},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, client := call(t, test.offered, test.options...)
			for service, state := range test.states {
				a.health.SetServingStatus(service, state)
			}
			dialect := backend.NewGRPC(client, backend.Options{Sample: parse(t, sampleCall)})
			if err := dialect.Ready(t.Context(), backend.DefaultModel); !errors.Is(err, test.want) {
				t.Errorf("got %v, expected %v", err, test.want)
			}
			if err := dialect.Up(t.Context()); err != nil {
				t.Errorf("it is not even up: %v", err)
			}
		})
	}
	nobody, err := backend.NewClient(backend.ClientSettings{Network: "unix", Address: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	dialect := backend.NewGRPC(nobody, backend.Options{})
	if err := errors.Join(dialect.Up(t.Context())); !errors.Is(err, backend.ErrNotYet) {
		t.Errorf("nobody there: got %v", err)
	}
}

func TestGRPCIsRecognised(t *testing.T) {
	t.Parallel()
	options := backend.Options{Sample: parse(t, sampleCall)}
	_, client := call(t, offers{})
	dialect, err := backend.Detect(t.Context(), client, options)
	if err != nil || dialect.Name() != "grpc" {
		t.Errorf("got %v, %v", dialect, err)
	}
	// An application over HTTP alone is none, whatever the sample says.
	if dialect, err := backend.Detect(t.Context(), serve(t, fake{}, backend.ClientSettings{}), options); err == nil {
		t.Errorf("an HTTP server was recognised as %s", dialect.Name())
	}
	for name, sample := range map[string]string{"grpc": "POST /predict\n\n{}", "http": sampleCall, "torchserve": sampleCall} {
		if _, err := backend.New(name, client, backend.Options{Sample: parse(t, sample)}); err == nil || !strings.Contains(err.Error(), "the sample begins with") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDescriptorsAreChecked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "set")
	for content, says := range map[string]string{"": "0 files", "nonsense": "--descriptor_set_out", string(make([]byte, 16<<20+1)): "longer than"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backend.ReadSchema(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, expected one that says %q", err, says)
		}
	}
	for _, line := range []string{"/a", "/a/b/c", "/a/", "//b"} {
		if _, err := backend.ParseSample([]byte(line + "\n\n{}")); err == nil || !strings.Contains(err.Error(), "/package.Service/Method") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

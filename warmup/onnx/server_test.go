package onnx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

const sumBody = `{"inputs":[{"name":"a","datatype":"FP32","shape":[1,2],"data":[1,2]},{"name":"b","datatype":"FP32","shape":[1,2],"data":[1,2]}]}`

// gateLoad makes a model's load wait until the test lets it go on. It counts the loads.
func gateLoad(m *model) (release func(), loads *atomic.Int64) {
	open, load := make(chan struct{}), m.load
	loads = &atomic.Int64{}
	m.load = func() (*session, error) {
		loads.Add(1)
		<-open

		return load()
	}

	return sync.OnceFunc(func() { close(open) }), loads
}

func TestReadyOnlyWhenLoaded(t *testing.T) {
	needLibrary(t)
	server, err := NewServer(Settings{Models: []Model{{Name: "sum", Path: sum().write(t)}}})
	if err != nil {
		t.Fatal(err)
	}
	release, _ := gateLoad(server.models[0])
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	s := &served{t: t, url: "http://" + listener.Addr().String(), target: listener.Addr().String(), client: &http.Client{Transport: &http.Transport{}}, log: &syncBuffer{}, server: server}
	client := s.dial()
	for path, want := range map[string]int{"/v2/health/live": 200, "/v2/health/ready": 503, "/v2/models/sum/ready": 503, "/v2/models/sum": 200} {
		if got, body := s.call(http.MethodGet, path, ""); got != want {
			t.Errorf("while it loads, %s says %d %s, expected %d", path, got, body, want)
		}
	}
	if got, body := s.call(http.MethodPost, "/v2/models/sum/infer", sumBody); got != 503 || !strings.Contains(body, `model \"sum\" is loading`) {
		t.Errorf("while it loads, an inference says %d %s", got, body)
	}
	if ready, err := client.ServerReady(t.Context(), &inference.ServerReadyRequest{}); err != nil || ready.GetReady() {
		t.Errorf("while it loads, ready is %v, %v", ready, err)
	}
	_, err = client.ModelInfer(t.Context(), &inference.ModelInferRequest{ModelName: "sum", Inputs: []*inference.ModelInferRequest_InferInputTensor{
		{Name: "a", Datatype: "FP32", Shape: []int64{1, 2}, Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2}}},
		{Name: "b", Datatype: "FP32", Shape: []int64{1, 2}, Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2}}},
	}})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("while it loads, a call says %v", err)
	}
	release()
	s.warm()
	for _, path := range []string{"/v2/health/ready", "/v2/models/sum/ready"} {
		if got, body := s.call(http.MethodGet, path, ""); got != 200 {
			t.Errorf("when it is loaded, %s says %d %s", path, got, body)
		}
	}
	s.infer("sum", sumBody)
	s.client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLazyLoadsOnceForAllWhoWait(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	release, loads := gateLoad(s.server.models[0])
	if status, _ := s.call(http.MethodGet, "/v2/health/ready", ""); status != http.StatusOK {
		t.Errorf("lazy, yet ready says %d", status)
	}
	const callers = 20
	var waiting sync.WaitGroup
	for range callers {
		waiting.Go(func() {
			if status, body := s.call(http.MethodPost, "/v2/models/sum/infer", sumBody); status != http.StatusOK {
				t.Errorf("status %d: %s", status, body)
			}
		})
	}
	waitFor(t, "every caller to wait", func() bool { return s.server.waiting.Load() == callers })
	release()
	waiting.Wait()
	if loads.Load() != 1 {
		t.Errorf("%d loads, expected one", loads.Load())
	}
}

func TestLazyLoadThatFailedIsTriedAgain(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	load := s.server.models[0].load
	s.server.models[0].load = func() (*session, error) { return nil, errors.New("disk on fire") }
	if status, body := s.call(http.MethodPost, "/v2/models/sum/infer", sumBody); status != http.StatusInternalServerError || !strings.Contains(body, "disk on fire") {
		t.Errorf("got %d %s", status, body)
	}
	s.server.models[0].load = load
	s.infer("sum", sumBody)
}

func TestModelThatDoesNotLoadEndsTheServer(t *testing.T) {
	needLibrary(t)
	broken := testModel{
		nodes:  []part{operator("NoSuchOperator", []string{"in"}, []string{"out"})},
		inputs: []part{value("in", FP32, []dim{"n"})}, outputs: []part{value("out", FP32, []dim{"n"})},
	}.write(t)
	server, err := NewServer(Settings{Models: []Model{{Path: broken}}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	err = server.Serve(t.Context(), listener)
	if err == nil || !strings.Contains(err.Error(), broken) || !strings.Contains(err.Error(), "NoSuchOperator") {
		t.Errorf("got %v", err)
	}
}

func TestFullQueueRefuses(t *testing.T) {
	s := serve(t, Settings{Lazy: true, Runs: 1, Queue: 2}, map[string]string{"sum": sum().write(t)})
	release, _ := gateLoad(s.server.models[0])
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer release()
	for range 3 {
		waiting.Go(func() {
			if status, body := s.call(http.MethodPost, "/v2/models/sum/infer", sumBody); status != http.StatusOK {
				t.Errorf("a caller within the limit: status %d: %s", status, body)
			}
		})
	}
	waitFor(t, "the queue to fill", func() bool { return s.server.waiting.Load() == 3 })
	if status, body := s.call(http.MethodPost, "/v2/models/sum/infer", sumBody); status != http.StatusServiceUnavailable || !strings.Contains(body, "2 requests wait") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestStopLetsRequestsEnd(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"sum": sum().write(t)})
	release, _ := gateLoad(s.server.models[0])
	answered := make(chan int, 1)
	go func() {
		status, _ := s.call(http.MethodPost, "/v2/models/sum/infer", sumBody)
		answered <- status
	}()
	waitFor(t, "the request to wait", func() bool { return s.server.waiting.Load() == 1 })
	s.stop()
	waitFor(t, "the port to close", func() bool {
		conn, err := net.Dial("tcp", s.target)
		if err == nil {
			_ = conn.Close()
		}

		return err != nil
	})
	release()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the request in flight got %d", status)
	}
}

func TestStopIsBounded(t *testing.T) {
	needLibrary(t)
	server, err := NewServer(Settings{Models: []Model{{Name: "sum", Path: sum().write(t)}}, Lazy: true, Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	release, _ := gateLoad(server.models[0])
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	gone := make(chan struct{})
	client := &http.Client{Transport: &http.Transport{}}
	go func() {
		defer close(gone)
		if response, err := client.Post("http://"+listener.Addr().String()+"/v2/models/sum/infer", "application/json", strings.NewReader(sumBody)); err == nil {
			_ = response.Body.Close()
		}
	}()
	waitFor(t, "the request to wait", func() bool { return server.waiting.Load() == 1 })
	stop()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "did not end in 50ms") {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Serve did not end")
	}
	release()
	<-gone
	client.CloseIdleConnections()
	_, _ = server.models[0].ensure(t.Context())
}

// A run that its caller gave up ends early. The model's loop would take much longer than the test may.
func TestRunEndsWithItsCaller(t *testing.T) {
	s := serve(t, Settings{}, map[string]string{"slow": slow(2000).write(t)}).warm()
	ctx, leave := context.WithCancel(t.Context())
	inputs := []tensor{{name: "in", datatype: FP32, shape: []int64{512, 512}, values: make([]float32, 512*512)}}
	loaded := s.server.models[0].loaded()
	timer := time.AfterFunc(50*time.Millisecond, leave)
	defer timer.Stop()
	start := time.Now()
	_, err := loaded.run(ctx, inputs)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

// slow multiplies a matrix by itself that many times.
func slow(times int) testModel {
	m := testModel{inputs: []part{value("in", FP32, []dim{"n", "n"})}, outputs: []part{value("out", FP32, []dim{"n", "n"})}}
	last := "in"
	for i := range times {
		next := "step" + strconv.Itoa(i)
		if i == times-1 {
			next = "out"
		}
		m.nodes = append(m.nodes, operator("MatMul", []string{last, "in"}, []string{next}))
		last = next
	}

	return m
}

// C57: one environment, models loaded in parallel, one session for shapes that change, none of it racing.
func TestC57ParallelModelsAndChangingShapes(t *testing.T) {
	models := map[string]string{}
	for i := range 8 {
		models[strconv.Itoa(i)] = identity(FP32, "n", "m").write(t)
	}
	s := serve(t, Settings{Lazy: true, Runs: 4}, models)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for round := range 12 {
				width := []int{100, 150, 200}[round%3]
				data := strings.TrimSuffix(strings.Repeat(strconv.Itoa(round)+",", 2*width), ",")
				answer := s.infer(strconv.Itoa(i), fmt.Sprintf(`{"inputs":[{"name":"in","datatype":"FP32","shape":[2,%d],"data":[%s]}]}`, width, data))
				if out := answer.Outputs[0]; fmt.Sprint(out.Shape) != fmt.Sprintf("[2 %d]", width) || string(out.Data) != "["+data+"]" {
					t.Errorf("model %d round %d: got %v %.40s", i, round, out.Shape, out.Data)
				}
			}
		})
	}
	callers.Wait()
}

// C58: outputs that the binding allocates, and sessions, must not pile up outside the Go heap.
func TestC58MemoryStaysFlat(t *testing.T) {
	needLibrary(t)
	path := identity(FP32, "n").write(t)
	head, err := readSignature(path)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := Settings{Models: []Model{{Path: path}}}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	inputs := []tensor{{name: "in", datatype: FP32, shape: []int64{64 << 10}, values: make([]float32, 64<<10)}}
	use := func(sessions, runs int) {
		for range sessions {
			loaded, err := newSession(path, head, settings)
			if err != nil {
				t.Fatal(err)
			}
			for range runs {
				if _, err := loaded.run(t.Context(), inputs); err != nil {
					t.Fatal(err)
				}
			}
			if err := loaded.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(20, 20)
	before := resident(t)
	use(1, 2000) // 256 KiB each: half a gigabyte if they stayed
	use(100, 1)
	if after := resident(t); after > before+64 {
		t.Errorf("%d MiB before, %d MiB after", before, after)
	}
}

// resident returns the memory of this process in MiB.
func resident(t *testing.T) int {
	t.Helper()
	runtime.GC()
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(content))[1])
	if err != nil {
		t.Fatal(err)
	}

	return pages * os.Getpagesize() >> 20
}

// C59: a GPU was asked for and there is none.
func TestC59CUDAWithoutGPUFailsUnlessAllowed(t *testing.T) {
	needLibrary(t)
	path := identity(FP32, "n").write(t)
	for _, provider := range []Provider{CUDA, TensorRT} {
		server, err := NewServer(Settings{Models: []Model{{Path: path}}, Provider: provider})
		if err != nil {
			t.Fatal(err)
		}
		_, err = server.models[0].ensure(t.Context())
		if err == nil || !strings.Contains(err.Error(), "fallen back to the CPU") || !strings.Contains(err.Error(), provider.String()) {
			t.Errorf("%s: got %v", provider, err)
		}
	}
	s := serve(t, Settings{Provider: CUDA, AllowCPU: true}, map[string]string{"sum": sum().write(t)}).warm()
	s.infer("sum", sumBody)
	if !strings.Contains(s.log.String(), "fell back to the CPU") {
		t.Errorf("the log does not say so: %s", s.log)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	path := sum().write(t)
	for _, test := range []struct {
		name     string
		settings Settings
		want     string
	}{
		{"no models", Settings{}, "none given"},
		{"one name twice", Settings{Models: []Model{{Name: "a", Path: path}, {Name: "a", Path: digits}}}, `both named "a"`},
		{"negative", Settings{Models: []Model{{Path: path}}, Threads: -1}, "cannot be negative"},
		{"no file", Settings{Models: []Model{{Path: "/none.onnx"}}}, "/none.onnx: no such file"},
		{"a folder", Settings{Models: []Model{{Path: t.TempDir()}}}, "expected a file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := NewServer(test.settings); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, expected %q", err, test.want)
			}
		})
	}
	resolved, err := Settings{Models: []Model{{Path: "/a/b/resnet.v1.onnx"}}}.resolve()
	if err != nil || resolved.Models[0].Name != "resnet.v1" {
		t.Errorf("got %+v, %v", resolved.Models, err)
	}
}

func TestListenTakesOverAnAbandonedSocketOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("a socket in use was taken over")
	}
	unix, ok := first.(*net.UnixListener)
	if !ok {
		t.Fatalf("got a %T", first)
	}
	unix.SetUnlinkOnClose(false) // as a kill does
	_ = first.Close()
	second, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if _, err := Listen(t.Context(), "127.0.0.1:none"); err == nil {
		t.Error("a bad port was listened on")
	}
}

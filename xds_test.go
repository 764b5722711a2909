package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/emptypb"
)

// coldBackend answers HTTP and gRPC on one port, once it is started. While it is sick it fails every request.
type coldBackend struct {
	address, sample string
	sick            atomic.Bool
	// begun gets a value for each stream whose first half is sent; the second is once finish is closed.
	begun  chan struct{}
	finish chan struct{}
}

func newColdBackend(tb testing.TB) *coldBackend {
	tb.Helper()
	b := &coldBackend{address: freeAddress(tb), sample: filepath.Join(tb.TempDir(), "sample"), begun: make(chan struct{}, 100), finish: make(chan struct{})}
	if err := os.WriteFile(b.sample, []byte("POST /predict\n\n{\"x\":1}"), 0o600); err != nil {
		tb.Fatal(err)
	}

	return b
}

// start lets it listen.
func (b *coldBackend) start(tb testing.TB) {
	tb.Helper()
	listener, err := net.Listen("tcp", b.address)
	if err != nil {
		tb.Fatal(err)
	}
	calls := grpc.NewServer(grpc.UnknownServiceHandler(b.call))
	server := &http.Server{Protocols: plainProtocols(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
		} else {
			b.answer(w, r)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	tb.Cleanup(func() { _ = server.Close() })
}

func (b *coldBackend) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case r.URL.Path == "/stream":
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		b.half(r.Context())
		_, _ = io.WriteString(w, "second")
	case b.sick.Load():
		w.WriteHeader(http.StatusInternalServerError)
	case r.URL.Path == "/predict":
		_, _ = io.WriteString(w, `{"y":1}`)
	case r.URL.Path != "/health":
		http.NotFound(w, r)
	}
}

// call answers any method: one message at once, and of a stream a second one at the end.
func (b *coldBackend) call(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	if method, _ := grpc.MethodFromServerStream(stream); strings.HasSuffix(method, "Stream") {
		b.half(stream.Context())

		return stream.SendMsg(&emptypb.Empty{})
	}

	return nil
}

func (b *coldBackend) half(ctx context.Context) {
	b.begun <- struct{}{}
	select {
	case <-b.finish:
	case <-ctx.Done():
	}
}

// followed is a Pilotlight that serves xDS, in front of a backend that is not started yet.
type followed struct {
	ports

	program *program
	config  string
	backend *coldBackend
}

func newFollowed(tb testing.TB, serve, envoyListen, more string) *followed {
	tb.Helper()
	f := &followed{ports: freePorts(tb), backend: newColdBackend(tb)}
	f.config = f.configure(tb, fmt.Sprintf("type: http, workers: 1, http: '%s', grpc: '%s'", f.backend.address, f.backend.address), fmt.Sprintf(`
warmup: {sample: '%s'}
concurrency: {limit: 8}
hold: {max_requests: 100}
health: {interval: 200ms}
circuit: {min_requests: 5, window: 5s, open_for: 200ms}
drain: {settle: 30s, limit: 60s}
xds: {serve: '%s', envoy: {listen: '%s'}%s}
`, f.backend.sample, serve, envoyListen, more))
	f.program = start(tb, "run", "-c", f.config)
	f.program.line(`"port":"xds"`)

	return f
}

// printed is what a command of pilotlight prints.
func printed(tb testing.TB, arguments ...string) []byte {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0], arguments...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	errs := &bytes.Buffer{}
	cmd.Stderr = errs
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%v: %v\n%s", arguments, err, errs)
	}

	return out
}

// held waits until so many requests are held.
func (f *followed) held(tb testing.TB, n int) {
	tb.Helper()
	var now struct {
		Gate struct {
			Held int `json:"held"`
		} `json:"gate"`
	}
	for deadline := time.Now().Add(20 * time.Second); now.Gate.Held != n; pause(tb.Context()) {
		_, body := get(tb, "http://"+f.admin+"/statusz")
		if err := json.Unmarshal([]byte(body), &now); err != nil {
			tb.Fatal(err)
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d requests are held, want %d", now.Gate.Held, n)
		}
	}
}

// bootstrap is what pilotlight prints for a client.
func (f *followed) bootstrap(tb testing.TB, client string, flags ...string) []byte {
	tb.Helper()

	return printed(tb, append([]string{"xds", "bootstrap", client, "-c", f.config}, flags...)...)
}

// dialXDS is a proxyless client with the bootstrap that pilotlight prints.
func (f *followed) dialXDS(tb testing.TB, flags ...string) *grpc.ClientConn {
	tb.Helper()
	resolver, err := xds.NewXDSResolverWithConfigForTesting(f.bootstrap(tb, "grpc", flags...))
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := grpc.NewClient("xds:///pilotlight", grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })

	return conn
}

// invoke calls once, for at most half a minute.
func invoke(conn *grpc.ClientConn, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	return conn.Invoke(ctx, "/test.Test/Call", &emptypb.Empty{}, &emptypb.Empty{}, options...)
}

// callsBecome waits until calls end so, for at most two seconds.
func callsBecome(t *testing.T, conn *grpc.ClientConn, want codes.Code, when string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Second); ; pause(t.Context()) {
		err := invoke(conn)
		if status.Code(err) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("calls %s: got %v, want %v", when, err, want)
		}
	}
}

// TestC54AProxylessClientFollowsThePod has a gRPC client that knows nothing but the bootstrap.
func TestC54AProxylessClientFollowsThePod(t *testing.T) {
	f := newFollowed(t, freeAddress(t), ":0", "")
	conn := f.dialXDS(t)
	early := make(chan error, 3)
	for range cap(early) {
		go func() { early <- invoke(conn) }()
	}
	f.held(t, cap(early))
	f.backend.start(t)
	for range cap(early) {
		if err := <-early; err != nil {
			t.Errorf("an early call: %v", err)
		}
	}
	until(t, f.readyz(), http.StatusOK)
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Test/Stream")
	if err == nil {
		err = stream.SendMsg(&emptypb.Empty{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(&emptypb.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}

	f.sicken(t)
	callsBecome(t, conn, codes.Unavailable, "to an unhealthy pod")
	f.backend.sick.Store(false)
	until(t, f.readyz(), http.StatusOK)
	callsBecome(t, conn, codes.OK, "to a pod that is well again")

	f.act(t, f.program, "/drain")
	callsBecome(t, conn, codes.Unavailable, "to a pod that drains")
	close(f.backend.finish)
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		t.Errorf("the stream did not survive: %v", err)
	}
}

// sicken lets the backend fail until that is noticed.
func (f *followed) sicken(tb testing.TB) {
	tb.Helper()
	f.backend.sick.Store(true)
	for deadline := time.Now().Add(20 * time.Second); ; pause(tb.Context()) {
		answer, err := plain.Post("http://"+f.data+"/predict", "application/json", strings.NewReader(`{"x":2}`))
		if err == nil {
			_ = answer.Body.Close()
		}
		if code, said := get(tb, f.readyz()); code != http.StatusOK && strings.Contains(said, "unhealthy") {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatal("nobody notices that the backend is sick")
		}
	}
}

// TestACallThatWaitsForReadyIsMadeOnceThePodIsWarm has a pod that is left out until it is warm. The control is a call that does not wait.
func TestACallThatWaitsForReadyIsMadeOnceThePodIsWarm(t *testing.T) {
	f := newFollowed(t, freeAddress(t), ":0", ", serve_while_warming: omit")
	conn := f.dialXDS(t)
	if err := invoke(conn); status.Code(err) != codes.Unavailable {
		t.Errorf("a call that does not wait: got %v", err)
	}
	waiting := make(chan error, 3)
	for range cap(waiting) {
		go func() { waiting <- invoke(conn, grpc.WaitForReady(true)) }()
	}
	f.held(t, 0)
	f.backend.start(t)
	for range cap(waiting) {
		if err := <-waiting; err != nil {
			t.Errorf("a call that waits: %v", err)
		}
	}
}

// TestXDSOverTLSAndASocket has clients that reach the server in other ways than over plain TCP; Envoy too where there is one.
func TestXDSOverTLSAndASocket(t *testing.T) {
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	certify(t, "pilotlight", cert, key)
	for name, row := range map[string]struct {
		serve, more string
		flags       []string
	}{
		"TLS with client certificates": {freeAddress(t), fmt.Sprintf(", tls: {cert: '%s', key: '%s', client_ca: '%s'}", cert, key, cert), []string{"--ca", cert, "--cert", cert, "--key", key}},
		"a Unix socket":                {"unix:" + filepath.Join(folder, "xds.sock"), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			front := &envoy{users: freeAddress(t)}
			f := newFollowed(t, row.serve, front.users, row.more)
			f.backend.start(t)
			until(t, f.readyz(), http.StatusOK)
			callsBecome(t, f.dialXDS(t, row.flags...), codes.OK, "over it")
			if os.Getenv(envoyProgram) == "" {
				return
			}
			front.run(t, f.bootstrap(t, "envoy", append(row.flags, "--admin", "")...))
			if status, body := front.predict(); status != http.StatusOK {
				t.Errorf("envoy: got %d %s", status, body)
			}
			if logged := front.logged(); logged != "" {
				t.Errorf("envoy warns: %s", logged)
			}
		})
	}
}

func TestXDSMetricsAreThereOnlyWithXDS(t *testing.T) {
	f := newFollowed(t, freeAddress(t), ":0", "")
	if _, page := get(t, "http://"+f.health+"/metrics"); !strings.Contains(page, `pilotlight_xds_nacks_total{resource="cluster"} 0`) || !strings.Contains(page, "pilotlight_xds_streams 0") {
		t.Errorf("got %s", page)
	}
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "http: '"+freeAddress(t)+"'", ""))
	until(t, "http://"+p.health+"/livez", http.StatusOK)
	if _, page := get(t, "http://"+p.health+"/metrics"); strings.Contains(page, "pilotlight_xds") {
		t.Errorf("without xds.serve: got %s", page)
	}
}

func TestXDSSnapshotShowsAState(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"ready": "HEALTHY", "unhealthy": "UNHEALTHY", "draining": "DRAINING"} {
		var shown struct {
			Endpoints []struct {
				Endpoints []struct {
					LBEndpoints []struct {
						HealthStatus string `json:"healthStatus"`
					} `json:"lbEndpoints"`
				} `json:"endpoints"`
			} `json:"endpoints"`
			Listeners []any `json:"listeners"`
			Routes    []any `json:"routes"`
			Clusters  []any `json:"clusters"`
		}
		text := printed(t, "xds", "snapshot", "--state", state, "--format", "json")
		if err := json.Unmarshal(text, &shown); err != nil {
			t.Fatal(err)
		}
		if len(shown.Listeners) != 2 || len(shown.Routes) != 1 || len(shown.Clusters) != 1 || shown.Endpoints[0].Endpoints[0].LBEndpoints[0].HealthStatus != want {
			t.Errorf("%s: got %s", state, text)
		}
	}
}

func TestXDSBootstrapNeedsToKnowTheServer(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	std := &stdio{out: out, err: out}
	if code := execute(std, []string{"xds", "bootstrap", "envoy"}); code != exitFailure || !strings.Contains(out.String(), "xds.serve is not set") {
		t.Errorf("got %d %s", code, out)
	}
}

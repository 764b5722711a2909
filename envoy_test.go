package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// envoyProgram names the environment variable with the path of a real Envoy, without which its tests are skipped: "make e2e-envoy" sets it.
const envoyProgram = "TEST_ENVOY"

// envoy is a real one.
type envoy struct {
	admin, users string

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes what it logs.
func (e *envoy) Write(text []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.log.Write(text)
}

func (e *envoy) logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.log.String()
}

// run starts it with a bootstrap and waits until it accepts users' requests.
func (e *envoy) run(t *testing.T, bootstrap []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Getenv(envoyProgram), "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "-c", path)
	cmd.Stdout, cmd.Stderr = e, e
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("envoy logged:\n%s", e.logged())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; pause(t.Context()) {
		conn, err := net.Dial("tcp", e.users)
		if err == nil {
			_ = conn.Close()

			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("envoy does not listen: %v", err)
		}
	}
}

// stat is one of its statistics, as text.
func (e *envoy) stat(t *testing.T, name string) string {
	t.Helper()
	_, text := get(t, "http://"+e.admin+"/stats?filter=^"+name+"$")
	_, value, _ := strings.Cut(strings.TrimSpace(text), ": ")

	return value
}

// becomes waits until a statistic has a value, for at most two seconds.
func (e *envoy) becomes(t *testing.T, name, want string) {
	t.Helper()
	e.becomesWithin(t, 2*time.Second, name, want)
}

func (e *envoy) becomesWithin(t *testing.T, limit time.Duration, name, want string) {
	t.Helper()
	for deadline := time.Now().Add(limit); e.stat(t, name) != want; pause(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: got %q, want %q", name, e.stat(t, name), want)
		}
	}
}

func (e *envoy) predict() (int, string) {
	answer, err := plain.Post("http://"+e.users+"/predict", "application/json", strings.NewReader(`{"x":2}`))
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}

	return answer.StatusCode, string(text)
}

// plainBootstrap leads to an address without Pilotlight.
func (e *envoy) plainBootstrap(address string) []byte {
	host, port, _ := net.SplitHostPort(address)
	usersHost, usersPort, _ := net.SplitHostPort(e.users)

	return fmt.Appendf(nil, `
static_resources:
  listeners:
  - address: {socket_address: {address: %s, port_value: %s}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: plain
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: plain}}]}]}
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
  clusters:
  - name: plain
    connect_timeout: 1s
    load_assignment: {cluster_name: plain, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}
`, usersHost, usersPort, host, port)
}

// TestEnvoyFollowsThePod has a real Envoy with the printed bootstrap in front of a Pilotlight whose backend is cold, in both forms of the protocol.
// The control is the same Envoy with the backend itself for its endpoint.
func TestEnvoyFollowsThePod(t *testing.T) {
	if os.Getenv(envoyProgram) == "" {
		t.Skipf("%s does not name a real Envoy: see make e2e-envoy", envoyProgram)
	}
	for name, flags := range map[string][]string{"full states": nil, "changes": {"--delta"}} {
		t.Run(name, func(t *testing.T) { envoyFollows(t, flags) })
	}
}

func envoyFollows(t *testing.T, flags []string) {
	t.Helper()
	const early = 20
	front, control := &envoy{admin: freeAddress(t), users: freeAddress(t)}, &envoy{users: freeAddress(t)}
	f := newFollowed(t, freeAddress(t), front.users, "")
	front.run(t, f.bootstrap(t, "envoy", append(flags, "--admin", front.admin)...))
	control.run(t, control.plainBootstrap(f.backend.address))

	// Cold: early requests are held, and none fails; without Pilotlight all do.
	type outcome struct {
		status int
		body   string
	}
	answers := make(chan outcome, early)
	for range early {
		go func() {
			status, body := front.predict()
			answers <- outcome{status, body}
		}()
	}
	stream := later(t, "http://"+front.users+"/stream")
	conn, err := grpc.NewClient("passthrough:///"+front.users, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	call := make(chan error, 1)
	go func() { call <- invoke(conn) }()
	const held = early + 2
	f.held(t, held)
	front.becomes(t, "cluster.pilotlight.membership_healthy", "1")
	front.becomes(t, "cluster.pilotlight.circuit_breakers.default.remaining_rq", fmt.Sprint(8+100-held))
	front.becomes(t, "cluster.pilotlight.circuit_breakers.default.remaining_cx", fmt.Sprint(20000-held))
	for range early {
		if status, body := control.predict(); status != http.StatusServiceUnavailable {
			t.Errorf("without Pilotlight: got %d %s, so that the rest proves nothing", status, body)
		}
	}
	f.backend.start(t)
	for range early {
		if got := <-answers; got.status != http.StatusOK || got.body != `{"y":1}` {
			t.Errorf("an early request: got %+v", got)
		}
	}
	if err := <-call; err != nil {
		t.Errorf("an early gRPC call: %v", err)
	}
	<-f.backend.begun

	// Unhealthy and well again.
	until(t, f.readyz(), http.StatusOK)
	f.sicken(t)
	front.becomes(t, "cluster.pilotlight.membership_healthy", "0")
	if status, body := front.predict(); status != http.StatusServiceUnavailable || !strings.Contains(body, "no healthy upstream") {
		t.Errorf("unhealthy: got %d %s", status, body)
	}
	f.backend.sick.Store(false)
	until(t, f.readyz(), http.StatusOK)
	front.becomes(t, "cluster.pilotlight.membership_healthy", "1")
	if status, body := front.predict(); status != http.StatusOK {
		t.Errorf("well again: got %d %s", status, body)
	}

	// Draining: nothing new comes, the stream lives.
	f.act(t, f.program, "/drain")
	front.becomes(t, "cluster.pilotlight.membership_healthy", "0")
	if status, body := front.predict(); status != http.StatusServiceUnavailable || !strings.Contains(body, "no healthy upstream") {
		t.Errorf("draining: got %d %s", status, body)
	}
	close(f.backend.finish)
	if got := <-stream; got.status != http.StatusOK || got.body != "first second" {
		t.Errorf("the stream: got %+v", got)
	}
	if logged := front.logged(); logged != "" {
		t.Errorf("envoy warns: %s", logged)
	}
	if _, page := get(t, "http://"+f.health+"/metrics"); !strings.Contains(page, "pilotlight_xds_streams 1") || strings.Contains(refusals(page), "} 1") {
		t.Errorf("metrics: %s", refusals(page))
	}

	// Another life: Envoy comes back with the version of this one, after a pause of its own.
	f.program.signal(syscall.SIGKILL)
	f.program.exit()
	f.program = start(t, "run", "-c", f.config)
	until(t, f.readyz(), http.StatusOK)
	front.becomesWithin(t, 30*time.Second, "cluster.pilotlight.membership_healthy", "1")
	if status, body := front.predict(); status != http.StatusOK {
		t.Errorf("after a restart of Pilotlight: got %d %s", status, body)
	}
}

// refusals are the lines of the metrics that count refused resources.
func refusals(page string) string {
	var lines []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "pilotlight_xds_") {
			lines = append(lines, line)
		}
	}

	return strings.Join(lines, "")
}

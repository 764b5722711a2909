package main

import (
	"bufio"
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
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// program is one process of pilotlight.
type program struct {
	t   testing.TB
	cmd *exec.Cmd
	// runtime is the folder that it takes for its runtime files.
	runtime string
	ended   chan struct{}
	lines   chan string
	mu      sync.Mutex
	output  bytes.Buffer
}

// start runs pilotlight with these arguments.
func start(tb testing.TB, arguments ...string) *program {
	tb.Helper()

	return startIn(tb, tb.TempDir(), arguments...)
}

// startIn is start with the folder of runtime files of another process.
func startIn(tb testing.TB, folder string, arguments ...string) *program {
	tb.Helper()
	p := &program{t: tb, runtime: folder, ended: make(chan struct{}), lines: make(chan string, 1000)}
	p.cmd = exec.Command(os.Args[0], arguments...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "XDG_RUNTIME_DIR="+p.runtime, "GORACE=atexit_sleep_ms=0")
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.cmd.Stdout = p
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
			_, _ = p.Write(append(scanner.Bytes(), '\n'))
			select {
			case p.lines <- scanner.Text():
			default: // nobody waits for a line
			}
		}
		_ = p.cmd.Wait()
	}()
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if tb.Failed() {
			tb.Logf("%v printed:\n%s", arguments, p.printed())
		}
	})

	return p
}

// Write takes what the process prints.
func (p *program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.output.Write(text)
}

func (p *program) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.output.String()
}

// line waits for a line of the log that contains text.
func (p *program) line(text string) string {
	p.t.Helper()
	patience := time.After(30 * time.Second)
	for {
		select {
		case line := <-p.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-p.ended:
			p.t.Fatalf("the process ended without a line with %q", text)
		case <-patience:
			p.t.Fatalf("no line with %q", text)
		}
	}
}

// exit waits for the end and returns the exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		p.t.Fatal("the process does not end")

		return -1
	}
}

func (p *program) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// ports are those of a Pilotlight under test.
type ports struct{ data, health, admin string }

func freePorts(tb testing.TB) ports {
	tb.Helper()

	return ports{freeAddress(tb), freeAddress(tb), freeAddress(tb)}
}

// given are the addresses that [freeAddress] has given out: the system gives a port out again that nobody has begun to use yet.
var given sync.Map

func freeAddress(tb testing.TB) string {
	tb.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		_ = listener.Close()
		address := listener.Addr().String()
		if _, twice := given.LoadOrStore(address, true); !twice {
			return address
		}
	}
}

func (p ports) readyz() string { return "http://" + p.health + "/readyz" }

// watch follows a service over gRPC health. It returns a function that waits for the next answer, or at the end for the code that ended it.
func (p ports) watch(tb testing.TB, service string) (next func() string) {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+p.health, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		tb.Fatal(err)
	}

	return func() string {
		answer, err := stream.Recv()
		if err != nil {
			return status.Code(err).String()
		}

		return answer.GetStatus().String()
	}
}

// configure writes a configuration for a backend, with more below it, and returns its path.
func (p ports) configure(tb testing.TB, backend, more string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "pilotlight.yaml")
	text := fmt.Sprintf("version: 1\nbackend: {%s}\nlisten: {data: '%s', health: '%s', admin: '%s'}\n%s", backend, p.data, p.health, p.admin, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}

	return path
}

// get asks once; status 0 means that there was no answer.
func get(tb testing.TB, url string) (status int, body string) {
	tb.Helper()
	resp, err := plain.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}

	return resp.StatusCode, string(text)
}

// act posts to the admin port, with the token of that process.
func (p ports) act(tb testing.TB, of *program, path string) (status int, body string) {
	tb.Helper()
	token, err := os.ReadFile(filepath.Join(of.runtime, "pilotlight", "admin-token"))
	if err != nil {
		tb.Fatal(err)
	}

	return p.post(tb, path, "Bearer "+strings.TrimSpace(string(token)))
}

// post posts to the admin port.
func (p ports) post(tb testing.TB, path, authorization string) (status int, body string) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, "http://"+p.admin+path, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	answer, err := plain.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		tb.Fatal(err)
	}

	return answer.StatusCode, string(text)
}

// plain is a client without kept connections, which goleak would find.
var plain = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// until asks url until it answers with status.
func until(tb testing.TB, url string, status int) {
	tb.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		got, body := get(tb, url)
		if got == status {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: got %d %s, want %d", url, got, body, status)
		}
		pause(tb.Context())
	}
}

// pause is the distance of two questions in tests over real sockets.
func pause(ctx context.Context) {
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
	}
}

// attributes reads a line of the log.
func attributes(tb testing.TB, line string) map[string]any {
	tb.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		tb.Fatalf("read log line %s: %v", line, err)
	}

	return fields
}

// sampleFile returns a file with a sample request.
func sampleFile(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "sample")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}

	return path
}

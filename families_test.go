package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// inNamespace tells the test binary in which network namespace it runs.
const inNamespace = "TEST_IN_NAMESPACE"

// families are the networks of C73: a shell command that makes one, and the IP addresses that there are.
var families = map[string]struct {
	make   string
	answer string // where the backend listens, and we are asked
	hole   string // where connections hang, if anywhere
}{
	"IPv6 only":                    {"ip link set lo up && ip addr del 127.0.0.1/8 dev lo", "::1", ""},
	"IPv4 only":                    {"echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; ip link set lo up", "127.0.0.1", ""},
	"both, backend on IPv4 only":   {"ip link set lo up", "127.0.0.1", ""},
	"both, backend on IPv6 only":   {"ip link set lo up", "::1", ""},
	"both, IPv6 swallows the call": {"ip link set lo up", "127.0.0.1", "::1"},
}

// TestC73EitherIPVersionMayBeAbsent runs the test below in networks of its own, in which localhost has an IPv6 address, first, and an IPv4 one.
func TestC73EitherIPVersionMayBeAbsent(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "unshare", "-nm", "ip", "link", "set", "lo", "up").Run(); err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("::1 localhost\n127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, network := range families {
		t.Run(name, func(t *testing.T) {
			script := `set -e; mount --bind "$2" /etc/hosts; ` + network.make + `; exec "$1" -test.run '^TestInANamespace$' -test.v`
			cmd := exec.CommandContext(t.Context(), "unshare", "-nm", "sh", "-c", script, "sh", os.Args[0], hosts)
			cmd.Env = append(os.Environ(), inNamespace+"="+name)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestInANamespace") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestInANamespace is no test by itself.
func TestInANamespace(t *testing.T) {
	network, ok := families[os.Getenv(inNamespace)]
	if !ok {
		t.Skip("not in a namespace of C73")
	}
	at := func(port string) string { return net.JoinHostPort(network.answer, port) }
	listener, err := net.Listen("tcp", at("0"))
	if err != nil {
		t.Fatal(err)
	}
	backend := &http.Server{Handler: &oip{}}
	go func() { _ = backend.Serve(listener) }()
	defer func() { _ = backend.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if network.hole != "" {
		swallow(t, net.JoinHostPort(network.hole, port))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // backend.connect_timeout
	defer cancel()
	began := time.Now()
	conn, err := proxy.Dialer().DialContext(ctx, "tcp", "localhost:"+port)
	took := time.Since(began)
	if err != nil || took > 300*time.Millisecond {
		t.Errorf("dial localhost: after %v: %v", took, err)
	}
	if err == nil {
		_ = conn.Close()
	}
	if network.hole != "" && took < 50*time.Millisecond {
		t.Errorf("connected after %v: nothing swallowed the call, so this proves nothing", took)
	}

	absent := map[string][]string{"IPv6 only": {"127.0.0.1", "0.0.0.0"}, "IPv4 only": {"::"}}[os.Getenv(inNamespace)]
	snapshot := string(printed(t, "xds", "snapshot"))
	for _, literal := range absent {
		if strings.Contains(snapshot, literal) {
			t.Errorf("%s in what would be served over xDS: %s", literal, snapshot)
		}
	}
	p := ports{data: at("19000"), health: at("19001"), admin: "localhost:19002"}
	pilotlight := start(t, "run", "--backend", "localhost:"+port, "--data", ":19000", "--health", ":19001", "--admin", "localhost:19002")
	if line := pilotlight.line("listening"); !strings.Contains(line, "[::]:19000") {
		t.Errorf("the log says %s, expected the address in brackets", line)
	}
	until(t, p.readyz(), http.StatusOK)
	if got := classify("http://"+p.data+"/v2/models/m/infer", 1); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	if status, body := get(t, "http://localhost:19002/statusz"); status != http.StatusOK {
		t.Errorf("/statusz: %d %s", status, body)
	}
	pilotlight.signal(syscall.SIGKILL)
}

// swallow makes connections to address hang, as behind a firewall that drops them: the queue of a listener that never accepts is full.
func swallow(t *testing.T, address string) {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	local := &syscall.SockaddrInet6{Port: at.Port}
	copy(local.Addr[:], at.IP.To16())
	if err := syscall.Bind(fd, local); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal(fmt.Sprint("the queue at ", address, " is never full"))
}

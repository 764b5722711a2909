package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// TestAListenerSendsToItsTarget asks over each protocol at a listener for http and at one for grpc, in front of a server with one port for each.
func TestAListenerSendsToItsTarget(t *testing.T) {
	t.Parallel()
	named := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Backend", fmt.Sprintf("%s %s %s", name, r.Proto, body))
			if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Grpc-Status", "0")
			}
		}
	}
	breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
	r := socketRig(t, httpBackend(t, named("http")), func(s *Settings, _ *GateSettings) {
		s.GRPC, s.Breaker = httpBackend(t, named("grpc")), breaker
	})
	toGRPC := serve(t, r.handler.ServerTo(ToGRPC), r.handler.Limit)
	ask := func(front string, client *http.Client, contentType string) string {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, "http://"+front+"/s/m", strings.NewReader("q"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		res, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		shut(res.Body)
		if backend := res.Header.Get("X-Backend"); backend != "" {
			return backend
		}

		return res.Status
	}
	// One gate for all: what comes by the extra listener is held too.
	held := make(chan string, 1)
	go func() { held <- ask(toGRPC, r.client, "application/json") }()
	until(t, "held", r.held(1))
	open(r.gate)
	if got := <-held; got != "grpc HTTP/2.0 q" {
		t.Errorf("the held request: %s", got)
	}
	h2 := overH2C(t)
	for _, test := range []struct {
		front, what string
		client      *http.Client
		want        string
	}{
		{r.front, "application/json", r.client, "http HTTP/1.1 q"},
		{r.front, "application/json", h2, "http HTTP/1.1 q"},
		{r.front, "application/grpc", h2, "grpc HTTP/2.0 q"},
		{toGRPC, "application/json", r.client, "grpc HTTP/2.0 q"},
		{toGRPC, "application/grpc-web", r.client, "grpc HTTP/2.0 q"},
		{toGRPC, "application/json", h2, "grpc HTTP/2.0 q"},
		{toGRPC, "application/grpc", h2, "grpc HTTP/2.0 q"},
	} {
		if got := ask(test.front, test.client, test.what); got != test.want {
			t.Errorf("%s: got %q, want %q", test.what, got, test.want)
		}
	}
	// HTTP/2 has no upgrades; asking for one must not count against the backend.
	conn, err := net.Dial("tcp", toGRPC)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 405 ") {
		t.Errorf("an upgrade: %q, %v", line, err)
	}
	if bad := breaker.Snapshot().Window.Bad; bad != 0 {
		t.Errorf("%d bad verdicts", bad)
	}
}

// TestAnExtraListenerServesGRPCClients has a real client at a listener for grpc.
func TestAnExtraListenerServesGRPCClients(t *testing.T) {
	t.Parallel()
	r := socketRig(t, tcp("localhost:1"), func(s *Settings, _ *GateSettings) { s.GRPC = grpcBackend(t) })
	open(r.gate)
	conn, err := grpc.NewClient("passthrough:///"+serve(t, r.handler.ServerTo(ToGRPC), r.handler.Limit),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	question, reply := []byte("q"), []byte(nil)
	if err := conn.Invoke(t.Context(), "/s/m", &question, &reply); err != nil || string(reply) != "q" {
		t.Errorf("%q, %v", reply, err)
	}
}

package onnx

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

// openEnv makes the test binary open the libraries that it lists, and say what came of it.
const openEnv = "ONNX_TEST_OPEN"

func TestMain(m *testing.M) {
	if list := os.Getenv(openEnv); list != "" {
		if _, _, err := openLibrary(filepath.SplitList(list)); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// digits is the model of examples/digits.
const digits = "../../examples/digits/model.onnx"

// needLibrary fails a test where there is no ONNX Runtime: to skip it would look like success.
func needLibrary(t *testing.T) {
	t.Helper()
	if _, _, err := openLibrary(FindLibrary("", os.Getenv)); err != nil {
		t.Fatalf("these tests need ONNX Runtime, run deploy/onnxruntime.sh: %v", err)
	}
}

// served is a server under test.
type served struct {
	t      *testing.T
	url    string
	target string
	client *http.Client
	log    *syncBuffer
	stop   context.CancelFunc
	ended  chan error
	server *Server
}

// serve serves the models by their names until the test ends, and fails the test if that fails.
func serve(t *testing.T, settings Settings, models map[string]string) *served {
	t.Helper()
	needLibrary(t)
	for name, path := range models {
		settings.Models = append(settings.Models, Model{Name: name, Path: path})
	}
	s := &served{t: t, log: &syncBuffer{}, ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	settings.Logger = slog.New(slog.NewJSONHandler(s.log, nil))
	var err error
	if s.server, err = NewServer(settings); err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.target = listener.Addr().String()
	s.url = "http://" + s.target
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- s.server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		stop()
		if err := <-s.ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})

	return s
}

// warm waits until every model is loaded.
func (s *served) warm() *served {
	s.t.Helper()
	for _, one := range s.server.models {
		if _, err := one.ensure(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}

	return s
}

// call returns the status and the body of an answer.
func (s *served) call(method, path, body string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}

	return response.StatusCode, string(content)
}

// infer returns the outputs of an inference that has to succeed.
func (s *served) infer(model, body string) (answer struct {
	Name    string `json:"model_name"`
	Version string `json:"model_version"`
	ID      string `json:"id"`
	Outputs []struct {
		Name     string          `json:"name"`
		Datatype string          `json:"datatype"`
		Shape    []int64         `json:"shape"`
		Data     json.RawMessage `json:"data"`
	} `json:"outputs"`
},
) {
	s.t.Helper()
	status, content := s.call(http.MethodPost, "/v2/models/"+model+"/infer", body)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, content)
	}
	if err := json.Unmarshal([]byte(content), &answer); err != nil {
		s.t.Fatalf("%v in %s", err, content)
	}

	return answer
}

// dial returns a gRPC client.
func (s *served) dial() inference.GRPCInferenceServiceClient {
	s.t.Helper()
	conn, err := grpc.NewClient(s.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })

	return inference.NewGRPCInferenceServiceClient(conn)
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.String()
}

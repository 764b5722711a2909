package warmup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// replayLine bounds one line of a file of requests, in bytes.
const replayLine = 32 << 20

// ReplayConfig is a step that sends requests from files, each once and in order. Whoever names the files vouches that sending them has no side effects.
type ReplayConfig struct {
	// Files hold one request in each line: {"method": "POST", "path": "/predict", "headers": {}, "body": {}}. A body that is no JSON is written as body_base64.
	// With "grpc": true the path is /package.Service/Method and body_base64 the message.
	Files []string `yaml:"files"`
}

// recorded is one line of a file.
type recorded struct {
	Method  string            `json:"method,omitempty"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Base64  []byte            `json:"body_base64,omitempty"`
	// GRPC says that Path is the method of a gRPC call and the body its message.
	GRPC bool `json:"grpc,omitempty"`
}

func (r recorded) request() (backend.Request, error) {
	request := backend.Request{Method: r.Method, Path: r.Path, Header: http.Header{}, Body: r.Body, Streams: !r.GRPC, GRPC: r.GRPC}
	switch {
	case r.Method == "":
		request.Method = http.MethodPost
	case r.Method != strings.ToUpper(r.Method) || strings.ContainsAny(r.Method, " \t"):
		return request, fmt.Errorf("the method is %q, expected one such as POST", r.Method)
	}
	switch {
	case !strings.HasPrefix(r.Path, "/"):
		return request, fmt.Errorf("the path is %q, expected one that begins with /", r.Path)
	case r.Body != nil && r.Base64 != nil:
		return request, errors.New("there is a body and a body_base64, expected one of them")
	case r.GRPC && (r.Body != nil || request.Method != http.MethodPost):
		return request, errors.New("a gRPC call has a message, as body_base64, and no method of HTTP")
	case r.Base64 != nil:
		request.Body = r.Base64
	}
	for name, value := range r.Headers {
		request.Header[textproto.CanonicalMIMEHeaderKey(name)] = []string{value}
	}

	return request, nil
}

// replay sends what the files hold. They are read line by line, so that their size does not matter.
func (c *run) replay(ctx context.Context, n *node) error {
	if err := c.listening(ctx); err != nil {
		return err
	}
	n.sent = 0
	for _, path := range n.replay.Files {
		err := c.replayFile(ctx, n, path)
		if spent, ok := errors.AsType[*spentError](err); ok {
			n.cut = fmt.Sprintf("%v; sent %d requests, and none of %s after them", spent, n.sent, path)

			return nil
		}
		if err != nil {
			return err
		}
	}
	if n.sent == 0 {
		return errors.New("replay: the files hold no request")
	}

	return nil
}

func (c *run) replayFile(ctx context.Context, n *node, path string) error {
	file, err := os.Open(path) //nolint:gosec // whoever writes the configuration says which file
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, replayLine)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		act := fmt.Sprintf("replay %s line %d", path, number)
		var one recorded
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			return fmt.Errorf("%s: expected {\"method\", \"path\", \"headers\", \"body\" or \"body_base64\"}: %w", act, err)
		}
		request, err := one.request()
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		if err := c.replayOne(ctx, act, request); err != nil {
			return err
		}
		n.sent++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("replay %s: %w", path, err)
	}

	return nil
}

// replayOne sends one request; a backend without room is asked again, for as long as the try goes on.
func (c *run) replayOne(ctx context.Context, act string, request backend.Request) error {
	pause := backoff{next: busyFirst, limit: busyMost}
	for {
		if err := c.room(ctx); err != nil {
			return err
		}
		if err := c.afford(); err != nil {
			return err
		}
		answer, err := c.runner.compute(ctx, c, request)
		c.sawAnswer(err)
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		if request.GRPC {
			err = backend.CheckCall(act, answer)
		} else {
			err = backend.CheckAny(act, answer, backend.Expect{Finite: true})
		}
		busy := errors.Is(err, backend.ErrBusy)
		c.runner.mu.Lock()
		if busy {
			c.busy++
		} else if err == nil {
			c.requests++
		}
		c.runner.mu.Unlock()
		if !busy {
			return err
		}
		if stopped := pause.wait(ctx); stopped != nil {
			return fmt.Errorf("%w; last answer: %w", stopped, err)
		}
	}
}

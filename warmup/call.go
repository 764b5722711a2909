package warmup

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// CallConfig is a step that makes one HTTP call to the backend, for example to load a model or to wake an engine. Any 2xx is good.
type CallConfig struct {
	// Method is the HTTP method.
	Method string `yaml:"method"`
	// Path is the path with its query.
	Path string `yaml:"path"`
	// Headers go along, besides backend.headers.
	Headers map[string]string `yaml:"headers"`
	// Body is sent as it stands, as JSON unless a header says otherwise.
	Body string `yaml:"body"`
}

// DefaultCall returns what a call step does of which nothing is said yet.
func DefaultCall() CallConfig { return CallConfig{Method: http.MethodPost} }

func (c CallConfig) check() error {
	switch {
	case c.Method == "" || c.Method != strings.ToUpper(c.Method) || strings.ContainsAny(c.Method, " \t"):
		return fmt.Errorf("its method is %q, expected one such as POST", c.Method)
	case !strings.HasPrefix(c.Path, "/"):
		return fmt.Errorf("its path is %q, expected one that begins with /", c.Path)
	default:
		return nil
	}
}

func (c CallConfig) request() backend.Request {
	request := backend.Request{Method: c.Method, Path: c.Path, Header: http.Header{}}
	for name, value := range c.Headers {
		request.Header[textproto.CanonicalMIMEHeaderKey(name)] = []string{value}
	}
	if c.Body != "" {
		request.Body = []byte(c.Body)
	}

	return request
}

// call waits for a listener and makes the call. It needs no model to be loaded: to load one is what it is for.
func (c *run) call(ctx context.Context, n *node) error {
	if err := c.listening(ctx); err != nil {
		return err
	}
	act := "call " + n.call.Method + " " + n.call.Path
	answer, err := c.runner.settings.Client.Do(ctx, n.call.request())
	c.sawAnswer(err)
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}

	return backend.CheckAny(act, answer, backend.Expect{})
}

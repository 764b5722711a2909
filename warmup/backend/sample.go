package backend

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sampleLimit bounds the file of a sample, in bytes.
const sampleLimit = 64 << 20

// Sample is one request that somebody vouched for: sending it again and again has no side effects.
type Sample struct {
	// Method is that of HTTP; a gRPC call has none, and Path is its method.
	Method string
	Path   string
	Header http.Header
	Body   []byte
	// raw says that Body is the message of a gRPC call as it goes over the wire, and no JSON.
	raw bool
}

// GRPC says whether the sample is a gRPC call.
func (s *Sample) GRPC() bool { return s.Method == "" }

// ReadSample reads a sample from a file.
func ReadSample(path string) (*Sample, error) {
	text, err := readBounded(path, sampleLimit)
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	sample, err := ParseSample(text)
	if err != nil {
		return nil, fmt.Errorf("read sample %s: %w", path, err)
	}
	named, elsewhere := strings.CutPrefix(string(sample.Body), "@")
	if !sample.GRPC() || !elsewhere {
		return sample, nil
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(filepath.Dir(path), named)
	}
	if sample.Body, err = readBounded(named, sampleLimit); err != nil {
		return nil, fmt.Errorf("read message of sample %s: %w", path, err)
	}
	sample.raw = true

	return sample, nil
}

// readBounded reads a file that is no longer than limit.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // whoever writes the configuration says which file
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", path, limit)
	}

	return content, err
}

// ParseSample reads a request in the form of a message: a line with method and path, lines with headers, an empty line, and the body as it is.
//
//	POST /predict
//	Content-Type: application/json
//
//	{"x": [1, 2]}
//
// A first line that is a path alone makes it a gRPC call: the path is /package.Service/Method, the headers are metadata and the body is the message as
// JSON, or @file with the bytes of the message.
func ParseSample(text []byte) (*Sample, error) {
	reader := bufio.NewReader(bytes.NewReader(text))
	head := textproto.NewReader(reader)
	line, err := head.ReadLine()
	if err != nil {
		return nil, errors.New("it is empty, expected METHOD /path, headers, an empty line and the body")
	}
	method, path, found := strings.Cut(strings.TrimSpace(line), " ")
	path = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(path), "HTTP/1.1"))
	if strings.HasPrefix(method, "/") && !found {
		method, path, found = "", method, strings.Count(method, "/") == 2 && !strings.HasSuffix(method, "/") && !strings.HasPrefix(method, "//")
		if !found {
			return nil, fmt.Errorf("line 1 is %q, expected METHOD /path, or /package.Service/Method for gRPC", excerpt([]byte(line)))
		}
	} else if !found || !strings.HasPrefix(path, "/") || method == "" || strings.ContainsAny(path, " \t#") || method != strings.ToUpper(method) {
		return nil, fmt.Errorf("line 1 is %q, expected METHOD /path, such as POST /predict", excerpt([]byte(line)))
	}
	header, err := head.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("headers: %w", err)
	}
	for _, name := range []string{"Connection", "Content-Length", "Transfer-Encoding", "Host"} {
		header.Del(name) // the connection's own, and often copied along
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	sample := &Sample{Method: method, Path: path, Header: http.Header(header), Body: body}
	// An editor's last line break is no part of JSON; anything else is sent to the byte.
	if strings.Contains(sample.Header.Get("Content-Type"), "json") || sample.Header.Get("Content-Type") == "" {
		sample.Body = bytes.TrimSpace(body)
	}
	if len(sample.Body) == 0 {
		sample.Body = nil
	}

	return sample, nil
}

func (s *Sample) request() Request {
	return Request{Method: s.Method, Path: s.Path, Header: s.Header.Clone(), Body: slices.Clone(s.Body), Streams: true}
}

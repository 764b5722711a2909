package onnx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
)

// Limits on how long a connection may take to say something.
const (
	headTime = 10 * time.Second
	bodyTime = 60 * time.Second
	idleTime = 2 * time.Minute
)

// httpServer puts HTTP/1.1, HTTP/2 and gRPC on one port. Requests run in working, so that cancelling it abandons them.
func (s *Server) httpServer(working context.Context) (*http.Server, *grpc.Server) {
	calls := s.grpcServer()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	return &http.Server{
		Handler:           s.recovering(s.dispatch(calls, s.routes())),
		Protocols:         protocols,
		ReadHeaderTimeout: headTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return working },
		ErrorLog:          slog.NewLogLogger(s.settings.Logger.Handler(), slog.LevelDebug),
	}, calls
}

// dispatch tells gRPC from the rest by its content type, as gRPC's own servers do.
func (s *Server) dispatch(calls *grpc.Server, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // fails only where there are no deadlines
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			if refuseLarge(w, r, s.settings.MaxBody) {
				return
			}
			calls.ServeHTTP(w, r)

			return
		}
		rest.ServeHTTP(w, r)
	})
}

// recovering makes a panic an answer, and a line in the log.
func (s *Server) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			recovered := recover()
			if recovered == nil {
				return
			}
			if err, ok := recovered.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(recovered) //nolint:forbidigo // net/http's way to abort
			}
			s.settings.Logger.Error("request panicked", "path", r.URL.Path, "panic", fmt.Sprint(recovered), "stack", string(debug.Stack()))
			refuse(w, faultf(internal, "the worker failed: %v", recovered))
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", s.serverMetadata)
	mux.HandleFunc("GET /v2/{$}", s.serverMetadata)
	mux.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]bool{"live": true}) })
	mux.HandleFunc("GET /v2/health/ready", func(w http.ResponseWriter, _ *http.Request) {
		replyReady(w, s.allReady(), map[string]any{"ready": s.allReady()})
	})
	for _, path := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		mux.HandleFunc("GET "+path, s.modelMetadata)
		mux.HandleFunc("GET "+path+"/ready", s.modelReady)
		mux.HandleFunc("POST "+path+"/infer", s.modelInfer)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, faultf(unknown, "%s %s: no such path", r.Method, shorten([]byte(r.URL.Path))))
	})

	return mux
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{"name": "pilotlight", "version": s.settings.Version, "extensions": []string{}})
}

func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) {
	m, err := s.find(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		refuse(w, err)

		return
	}
	ready := s.ready(m)
	replyReady(w, ready, map[string]any{"name": m.Name, "ready": ready})
}

func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) {
	m, err := s.find(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		refuse(w, err)

		return
	}
	reply(w, map[string]any{
		"name": m.Name, "versions": []string{version}, "platform": platform,
		"inputs": describe(m.signature.inputs), "outputs": describe(m.signature.outputs),
	})
}

// platform is the protocol's name for ONNX files in ONNX Runtime.
const platform = "onnxruntime_onnx"

func describe(list []tensorInfo) []map[string]any {
	described := make([]map[string]any, len(list))
	for i, info := range list {
		described[i] = map[string]any{"name": info.name, "datatype": info.datatype, "shape": info.metadataShape()}
	}

	return described
}

// metadataShape is never nil, since the protocol asks for a list. A shape that the model leaves open altogether is given as
// one dimension of any size; the protocol has no better word.
func (t tensorInfo) metadataShape() []int64 {
	if !t.ranked {
		return []int64{-1}
	}

	return append([]int64{}, t.shape...)
}

func (s *Server) modelInfer(w http.ResponseWriter, r *http.Request) {
	m, err := s.find(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		refuse(w, err)

		return
	}
	body, err := s.readBody(w, r)
	if err != nil {
		refuse(w, err)

		return
	}
	asked, err := decodeRequest(body, m.signature)
	if err != nil {
		refuse(w, err)

		return
	}
	outputs, err := s.infer(r.Context(), m, asked)
	if err != nil {
		refuse(w, err)

		return
	}
	answer, err := encodeResponse(m.Name, asked.id, outputs)
	if err != nil {
		refuse(w, err)

		return
	}
	write(w, http.StatusOK, answer)
}

// readBody reads a request whole, within its limits of size and time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Header.Get("Inference-Header-Content-Length") != "" {
		return nil, faultf(invalid, "header Inference-Header-Content-Length: binary tensor data is not spoken here, use JSON or gRPC")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, faultf(invalid, "header Content-Encoding: expected none, got %q", shorten([]byte(encoding)))
	}
	tooLarge := faultf(invalid, "body: expected at most %d bytes, got more", s.settings.MaxBody)
	if r.ContentLength > s.settings.MaxBody {
		tooLarge.text = fmt.Sprintf("body: expected at most %d bytes, got %d", s.settings.MaxBody, r.ContentLength)
		w.Header().Set("Connection", "close") // rather than to read what nobody wants

		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.settings.MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, faultf(gone, "read body: %v", err)
	}
	// net/http watches the connection while a handler works; a deadline that passed would look like a caller who left.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if !utf8.Valid(body) {
		return nil, faultf(invalid, "body: expected UTF-8")
	}

	return body, nil
}

// refuse answers with an error as the protocol writes it.
func refuse(w http.ResponseWriter, err error) {
	known := asFault(err)
	body, err := json.Marshal(map[string]string{"error": known.text})
	if err != nil {
		body = []byte(`{"error":"an error that cannot be written"}`)
	}
	write(w, known.kind.status(), body)
}

func reply(w http.ResponseWriter, value any) { replyReady(w, true, value) }

func replyReady(w http.ResponseWriter, ready bool, value any) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	body, err := json.Marshal(value)
	if err != nil {
		refuse(w, err)

		return
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails when the caller left
}

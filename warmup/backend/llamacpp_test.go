package backend_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// llamaRouter answers as build 11434 does that was started with --models-dir: it has no model until somebody asks for one by its name.
func llamaRouter(loaded *atomic.Bool) http.Handler {
	refuse := func(w http.ResponseWriter, message string) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"code":400,"message":%q,"type":"invalid_request_error"}}`, message)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":"ok"}`) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		meta := ""
		if loaded.Load() {
			meta = `,"meta":{"n_vocab":579}`
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"tiny","owned_by":"llamacpp","status":{}`+meta+`}]}`)
	})
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("model") == "":
			_, _ = io.WriteString(w, `{"role":"router","model_path":"none","default_generation_settings":{"n_ctx":0}}`)
		case r.FormValue("autoload") == "false" && !loaded.Load():
			refuse(w, "model is not loaded")
		default:
			loaded.Store(true)
			_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":4096},"total_slots":2,"model_path":"/m/tiny.gguf"}`)
		}
	})
	mux.HandleFunc("POST /completion", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model string `json:"model"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Model == "" {
			refuse(w, "model name is missing from the request")

			return
		}
		loaded.Store(true)
		_, _ = io.WriteString(w, `{"content":"a","stop":true}`)
	})

	return mux
}

func TestLlamaCPPRouterLoadsAModelOnlyToWarmIt(t *testing.T) {
	t.Parallel()
	var loaded atomic.Bool
	client := serve(t, llamaRouter(&loaded), backend.ClientSettings{})
	router := backend.NewLlamaCPP(client)
	if err := router.Ready(t.Context(), "tiny"); err != nil {
		t.Fatalf("a router is ready before it has a model: %v", err)
	}
	if has, err := router.Loaded(t.Context(), "tiny"); has || err != nil {
		t.Errorf("nobody asked for the model: loaded %v, %v", has, err)
	}
	if identity, err := router.Identity(t.Context(), "tiny"); err == nil {
		t.Errorf("a model that is not there has identity %q", identity)
	}
	if loaded.Load() {
		t.Fatal("a question that checks on the model loaded it")
	}
	model, err := router.Describe(t.Context(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if model.MaxTokens != 4096 || model.Vocabulary != 579 {
		t.Errorf("described as %d tokens long, %d words; expected what the loaded model says", model.MaxTokens, model.Vocabulary)
	}
	if workers, err := router.Workers(t.Context(), "tiny"); workers != 2 || err != nil {
		t.Errorf("%d workers, %v; expected the 2 slots of the model", workers, err)
	}
	request, err := router.Request(model, backend.Shape{InputTokens: 3, OutputTokens: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := router.Check("infer", answer, backend.Expect{}); err != nil {
		t.Errorf("the router does not take the request: %v", err)
	}
	if has, err := router.Loaded(t.Context(), "tiny"); !has || err != nil {
		t.Errorf("after the warm-up: loaded %v, %v", has, err)
	}
}

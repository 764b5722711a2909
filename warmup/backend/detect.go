package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// recogniser is a question that costs a server next to nothing, and what its answer gives away.
type recogniser struct {
	path string
	// sees returns the server type, or "".
	sees func(Answer) string
}

// recognisers stand in an order in which none can take a server for another one: what only one type answers comes before what many
// imitate. Most types are known by the first answer, the refusal included.
func recognisers() []recogniser {
	return []recogniser{
		{"/v2", seesAtV2},
		{"/api/version", seesOllama},
		{"/info", seesInfo},
		{"/v1/models", seesModels},
		{"/openapi.json", seesOpenAPI},
	}
}

// Detect finds out the server type by asking the server. ErrNotYet: it does not answer yet, or says that it is not ready to; ErrNotRecognised: what
// it answered is in the error. Where there is a sample request, what answers and is of no other type is of type http; where that is a gRPC call, what answers by
// gRPC is of type grpc.
func Detect(ctx context.Context, client *Client, options Options) (Dialect, error) {
	if options.Sample != nil && options.Sample.GRPC() {
		return detectGRPC(ctx, client, options)
	}
	var refused, first *Error
	for _, r := range recognisers() {
		act := "recognise server: GET " + r.path
		answer, err := client.control(ctx, http.MethodGet, r.path, nil)
		if err != nil {
			return nil, renamed(err, act)
		}
		// Whoever refused to say what it is may be more than the application that its open description shows.
		if name := r.sees(answer); name != "" && (name != "http" || refused == nil) {
			return recognised(name, client, options, answer)
		}
		unknown := &Error{Act: act, Kind: ErrNotRecognised, Status: answer.Status, Excerpt: excerpt(answer.Body)}
		switch {
		case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
			unknown.Kind = ErrCredentialsRefused
			if refused == nil {
				refused = unknown
			}
		case answer.Status == http.StatusTooManyRequests || answer.Status >= http.StatusInternalServerError:
			unknown.Kind = ErrNotYet

			return nil, unknown
		}
		if first == nil {
			first = unknown
		}
	}
	switch {
	case refused != nil:
		return nil, refused
	case options.Sample != nil:
		return NewHTTP(client, options), nil
	default:
		first.Err = errors.New("it answers like no server type that is known here; name it under backend.type, or for an application a request under warmup.sample")

		return nil, first
	}
}

func recognised(name string, client *Client, options Options, answer Answer) (Dialect, error) {
	dialect, err := New(name, client, options)
	if oip, ok := dialect.(*OIP); ok && err == nil {
		oip.plain = !slices.Contains(v2Server(answer).Extensions, "model_configuration")
	}

	return dialect, err
}

// v2 is what a server of the Open Inference Protocol says of itself.
type v2 struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

func v2Server(answer Answer) (server v2) {
	if answer.Status == http.StatusOK && json.Unmarshal(answer.Body, &server) != nil {
		return v2{}
	}

	return server
}

// seesAtV2 knows the protocol, and two servers by the words in which they refuse any path that they do not have.
func seesAtV2(answer Answer) string {
	switch server := v2Server(answer); {
	case server.Name == "triton":
		return "triton"
	case server.Name != "":
		return "oip"
	case answer.Status == http.StatusOK:
		return ""
	case strings.Contains(string(answer.Body), "Malformed request: GET /v2"):
		return "tfserving"
	case strings.Contains(string(answer.Body), "ResourceNotFoundException"):
		return "torchserve"
	default:
		return ""
	}
}

func seesOllama(answer Answer) string {
	var said map[string]any
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &said) != nil {
		return ""
	}
	if version, ok := said["version"].(string); ok && version != "" && len(said) == 1 {
		return "ollama"
	}

	return ""
}

func seesInfo(answer Answer) string {
	var said struct {
		Model    string          `json:"model_id"`
		Type     json.RawMessage `json:"model_type"`
		Total    int             `json:"max_total_tokens"`
		Batch    int             `json:"max_batch_tokens"`
		MaxInput int             `json:"max_input_length"`
	}
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &said) != nil || said.Model == "" {
		return ""
	}
	switch {
	case said.Total > 0:
		return "tgi"
	case len(said.Type) > 0 && said.Type[0] == '{' && said.MaxInput > 0:
		return "tei"
	default:
		return ""
	}
}

// seesModels tells the servers of the OpenAI API apart by what they say who owns the models.
func seesModels(answer Answer) string {
	if answer.Status != http.StatusOK {
		return ""
	}
	list, err := readModels(answer)
	if err != nil {
		return ""
	}
	for _, model := range list {
		if slices.Contains([]string{"vllm", "sglang", "llamacpp"}, model.OwnedBy) {
			return model.OwnedBy
		}
	}

	return "openai"
}

// seesOpenAPI knows an application by the description that its framework publishes. That promises nothing about what a request to it does.
func seesOpenAPI(answer Answer) string {
	var said struct {
		OpenAPI string `json:"openapi"`
	}
	if answer.Status == http.StatusOK && json.Unmarshal(answer.Body, &said) == nil && said.OpenAPI != "" {
		return "http"
	}

	return ""
}

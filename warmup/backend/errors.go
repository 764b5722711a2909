package backend

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What an error means to those who decide what to do next. Each Error is one of them, by [errors.Is], or none.
var (
	// ErrNotYet means that the server, or the model, is not there yet.
	ErrNotYet = errors.New("not yet")
	// ErrBusy means that the server is there and has no room: 429 and 503. It is a reason to come back later, not a failure.
	ErrBusy = errors.New("busy")
	// ErrCredentialsRefused means 401 or 403, which waiting does not cure.
	ErrCredentialsRefused = errors.New("credentials refused")
	// ErrRequestRefused means that the server took this request for a bad one: 400, 413, 422.
	ErrRequestRefused = errors.New("request refused")
	// ErrNotOffered means that this server has no such call.
	ErrNotOffered = errors.New("not offered by this server")
	// ErrNoRequest means that no request may be made up for this model; a sample is needed.
	ErrNoRequest = errors.New("no request can be made up")
	// ErrNotRecognised means that something answers, and it is of no server type known here.
	ErrNotRecognised = errors.New("server type not recognised")
	// ErrBadAnswer means that an inference was answered, and the answer is no good one.
	ErrBadAnswer = errors.New("bad answer")
)

// excerptBytes bounds what is quoted from a backend.
const excerptBytes = 200

// Error is a call to the backend that did not end well.
type Error struct {
	// Act is what was tried, as in "infer resnet50".
	Act string
	// Kind is one of the sentinels above, or nil.
	Kind error
	// Status is the HTTP status; 0 when no answer came.
	Status int
	// Excerpt is the beginning of the answer.
	Excerpt string
	// Err is the cause, when there is one besides the answer.
	Err error
}

// Error says what was tried, what was answered, and the cause.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Act)
	if e.Status != 0 {
		fmt.Fprintf(&text, ": status %d", e.Status)
	}
	if e.Err != nil {
		fmt.Fprintf(&text, ": %v", e.Err)
	}
	if e.Excerpt != "" {
		fmt.Fprintf(&text, ": %q", e.Excerpt)
	}
	if e.Status == 0 && e.Err == nil && e.Kind != nil {
		fmt.Fprintf(&text, ": %v", e.Kind)
	}

	return text.String()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}

	return all
}

// Loading says whether the server answered an inference that it is loading the model.
func (e *Error) Loading() bool {
	return e.Status == http.StatusServiceUnavailable && strings.Contains(strings.ToLower(e.Excerpt), "loading")
}

func excerpt(body []byte) string {
	text := string(body[:min(len(body), excerptBytes)])
	for len(text) > 0 && !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "")
	}

	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}

		return r
	}, text))
}

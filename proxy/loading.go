package proxy

import (
	"bytes"
	"io"
	"net/http"
)

// loadingWords is how far into an answer it is looked for the word that says that a model is being loaded, in bytes.
const loadingWords = 512

// loading says whether the backend has not taken the request because a model is being loaded: it says so, as llama.cpp, Triton and others word it, or it is unavailable, and a
// look at it shows that. The begin of a 503's body is read for it and kept in ahead.
func (a *attempt) loading(status int, header http.Header, body io.Reader) bool {
	var words []byte
	switch {
	case a.x.grpc && header.Get("Grpc-Status") == "14": // UNAVAILABLE
		words = []byte(header.Get("Grpc-Message"))
	case !a.x.grpc && status == http.StatusServiceUnavailable && header.Get("Retry-After") == "":
		a.clock.waiting()
		a.ahead.fill(body)
		a.clock.got()
		words = a.ahead.bytes
	default:
		return false
	}
	loading := bytes.Contains(bytes.ToLower(words), []byte("loading"))
	if look := a.x.h.settings.Unavailable; look != nil && !a.x.refused && look(a.x.r.Context(), loading) {
		return true
	}

	return loading
}

// ahead is the begin of an answer's body that was read before the answer was handed on. The zero ahead is empty.
type ahead struct {
	bytes []byte
	err   error // what came after them, if they are all
}

// fill reads so much of body as may say something.
func (a *ahead) fill(body io.Reader) {
	a.bytes = make([]byte, loadingWords)
	n := 0
	for n < len(a.bytes) && a.err == nil {
		var more int
		more, a.err = body.Read(a.bytes[n:])
		n += more
	}
	a.bytes = a.bytes[:n]
}

// read gives what was read ahead, then the rest of body.
func (a *ahead) read(p []byte, body io.Reader) (int, error) {
	if len(a.bytes) == 0 && a.err == nil {
		return body.Read(p) //nolint:wrapcheck // a reader hands errors on
	}
	n := copy(p, a.bytes)
	if a.bytes = a.bytes[n:]; len(a.bytes) > 0 {
		return n, nil
	}

	return n, a.err
}

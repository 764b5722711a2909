package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// frameHead is the length of what stands before each message: whether it is compressed, and its length.
const frameHead = 5

// framed returns a Client of the address where gRPC is spoken, over HTTP/2 from the first byte on.
func (c *Client) framed() *Client {
	settings := c.settings
	if peer := settings.GRPC; peer.Address != "" {
		settings.Network, settings.Address, settings.TLS = peer.Network, peer.Address, peer.TLS
	}
	settings.BasePath = ""
	f := &Client{settings: settings, host: settings.Address}
	if settings.Network == "unix" {
		f.host = "localhost"
	}
	f.transport, f.talk = f.overHTTP2(c.transport), f.overHTTP2(c.talk)

	return f
}

// overHTTP2 returns a Transport like another one. Nothing of it is shared, since the first request sets some of its parts.
func (c *Client) overHTTP2(like *http.Transport) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	made := like.Clone()
	made.DialContext, made.TLSClientConfig, made.Protocols = c.dial, c.settings.TLS.Clone(), protocols

	return made
}

// call makes a unary gRPC call that does no inference. Its error is that of the call's status, too.
func (c *Client) call(ctx context.Context, act, method string, request, reply proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	answer, err := c.ask(ctx, Request{Method: http.MethodPost, Path: method, Body: message, GRPC: true})
	if err != nil {
		return renamed(err, act)
	}
	if err := called(act, answer); err != nil {
		return err
	}
	messages, err := unframe(answer.Body)
	if err == nil && len(messages) != 1 {
		err = fmt.Errorf("%d messages, expected 1", len(messages))
	}
	if err == nil {
		err = proto.Unmarshal(messages[0], reply)
	}
	if err != nil {
		return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Err: fmt.Errorf("read answer: %w", err)}
	}

	return nil
}

// frame puts the head of an uncompressed message before it.
func frame(message []byte) []byte {
	framed := make([]byte, frameHead, frameHead+len(message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message))) //nolint:gosec // samples and questions are bounded well below 4 GiB

	return append(framed, message...)
}

// unframe takes the messages of a body apart.
func unframe(body []byte) ([][]byte, error) {
	var messages [][]byte
	for len(body) > 0 {
		if len(body) < frameHead {
			return nil, fmt.Errorf("%d bytes after message %d, expected the %d of a head", len(body), len(messages), frameHead)
		}
		if body[0] != 0 {
			return nil, errors.New("a compressed message, which nobody asked for")
		}
		length := uint64(binary.BigEndian.Uint32(body[1:]))
		body = body[frameHead:]
		if uint64(len(body)) < length {
			return nil, fmt.Errorf("message %d has %d bytes, its head says %d", len(messages)+1, len(body), length)
		}
		messages = append(messages, body[:length])
		body = body[length:]
	}

	return messages, nil
}

// meanings says what the codes of gRPC are called, which HTTP status stands for them, and what they mean to whoever warms.
var meanings = map[codes.Code]struct {
	name   string
	status int
	kind   error
}{
	codes.OK:                 {"OK", http.StatusOK, nil},
	codes.Canceled:           {"CANCELLED", 499, ErrBadAnswer},
	codes.Unknown:            {"UNKNOWN", http.StatusInternalServerError, ErrBadAnswer},
	codes.InvalidArgument:    {"INVALID_ARGUMENT", http.StatusBadRequest, ErrRequestRefused},
	codes.DeadlineExceeded:   {"DEADLINE_EXCEEDED", http.StatusGatewayTimeout, ErrBadAnswer},
	codes.NotFound:           {"NOT_FOUND", http.StatusNotFound, ErrNotYet},
	codes.AlreadyExists:      {"ALREADY_EXISTS", http.StatusConflict, ErrBadAnswer},
	codes.PermissionDenied:   {"PERMISSION_DENIED", http.StatusForbidden, ErrCredentialsRefused},
	codes.ResourceExhausted:  {"RESOURCE_EXHAUSTED", http.StatusTooManyRequests, ErrBusy},
	codes.FailedPrecondition: {"FAILED_PRECONDITION", http.StatusBadRequest, ErrBadAnswer},
	codes.Aborted:            {"ABORTED", http.StatusConflict, ErrBadAnswer},
	codes.OutOfRange:         {"OUT_OF_RANGE", http.StatusBadRequest, ErrRequestRefused},
	codes.Unimplemented:      {"UNIMPLEMENTED", http.StatusNotImplemented, ErrNotOffered},
	codes.Internal:           {"INTERNAL", http.StatusInternalServerError, ErrBadAnswer},
	codes.Unavailable:        {"UNAVAILABLE", http.StatusServiceUnavailable, ErrNotYet},
	codes.DataLoss:           {"DATA_LOSS", http.StatusInternalServerError, ErrBadAnswer},
	codes.Unauthenticated:    {"UNAUTHENTICATED", http.StatusUnauthorized, ErrCredentialsRefused},
}

// called is the error for a gRPC call that did not end with OK. The status stands in the trailers, or in the head of an answer that is trailers only;
// an answer without one is no whole answer, whatever it holds.
func called(act string, answer Answer) error {
	said := answer.Trailer
	if said.Get("Grpc-Status") == "" {
		said = answer.Header
	}
	text := said.Get("Grpc-Status")
	switch {
	case text == "" && answer.Status != http.StatusOK:
		return inferred(act, answer)
	case text == "" && !speaksGRPC(answer):
		return notGRPC(act, answer)
	case text == "":
		return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Err: errors.New("the answer ended without grpc-status")}
	}
	number, err := strconv.ParseUint(text, 10, 32)
	code := codes.Code(number)
	meaning, known := meanings[code]
	switch {
	case err != nil || !known:
		return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Err: fmt.Errorf("grpc-status is %q, which is none", excerpt([]byte(text)))}
	case code == codes.OK:
		return nil
	}
	message := said.Get("Grpc-Message")
	if decoded, err := url.PathUnescape(message); err == nil {
		message = decoded
	}

	return &Error{Act: act, Kind: meaning.kind, Status: meaning.status, Err: errors.New(meaning.name), Excerpt: excerpt([]byte(message))}
}

// speaksGRPC says whether an answer comes from a gRPC server.
func speaksGRPC(answer Answer) bool {
	return strings.HasPrefix(answer.Header.Get("Content-Type"), "application/grpc")
}

func notGRPC(act string, answer Answer) error {
	return &Error{
		Act: act, Kind: ErrNotRecognised, Status: answer.Status, Excerpt: excerpt(answer.Body),
		Err: fmt.Errorf("the answer is of type %q, expected application/grpc", answer.Header.Get("Content-Type")),
	}
}

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// tokenSize is how many bytes an event with a token has.
const tokenSize = len("data: ") + 20 + len("\n\n")

// appendToken appends an event that holds when it was sent.
func appendToken(b []byte, sent time.Duration) []byte {
	return fmt.Appendf(b, "data: %020d\n\n", int64(sent))
}

// tokenReader reads the events of one stream, however they were cut into pieces.
type tokenReader struct {
	kept []byte
	// seen is called with the time at which each token was sent.
	seen func(sent time.Duration)
}

// feed takes a piece of the stream.
func (t *tokenReader) feed(piece []byte) error {
	t.kept = append(t.kept, piece...)
	for {
		event, rest, found := bytes.Cut(t.kept, []byte("\n\n"))
		if !found {
			return nil
		}
		text, _ := bytes.CutPrefix(event, []byte("data: "))
		sent, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return fmt.Errorf("read token: expected \"data: \" and a time, got %q", event)
		}
		t.seen(time.Duration(sent))
		t.kept = append(t.kept[:0], rest...)
	}
}

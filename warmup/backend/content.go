package backend

import (
	"bytes"
	"encoding/json"
)

// content is the body of an answer, taken apart.
type content struct {
	// body is the whole body with NaN and infinities quoted, odd whether there were any.
	body []byte
	odd  bool
	// streamed is true for server-sent events and for JSON lines of which there are several; events are those that hold JSON.
	streamed bool
	events   []json.RawMessage
	// done is true when the stream ended with the [DONE] of the OpenAI API.
	done bool
	// failure is what an event of type "error" said.
	failure []byte
}

func newContent(answer Answer) content {
	var c content
	c.body, c.odd = quoteOddNumbers(answer.Body)
	trimmed := bytes.TrimSpace(c.body)
	if json.Valid(trimmed) {
		return c
	}
	isError := false
	for line := range bytes.Lines(trimmed) {
		line = bytes.TrimSpace(line)
		payload, event := bytes.CutPrefix(line, []byte("data:"))
		payload = bytes.TrimSpace(payload)
		switch name, named := bytes.CutPrefix(line, []byte("event:")); {
		case named:
			isError = string(bytes.TrimSpace(name)) == "error"
			c.streamed = true
		case event && string(payload) == "[DONE]":
			c.streamed, c.done = true, true
		case len(line) == 0:
			isError = false
		case event && isError, bytes.HasPrefix(line, []byte("error:")): // llama.cpp once had a field of its own for errors
			c.streamed = true
			if c.failure == nil {
				c.failure = line
			}
		case (event || line[0] == '{') && json.Valid(payload):
			c.streamed = true
			c.events = append(c.events, payload)
		}
	}

	return c
}

// last is the JSON that expectations are about: the body, or the last event of a stream.
func (c content) last() []byte {
	if c.streamed && len(c.events) > 0 {
		return c.events[len(c.events)-1]
	}

	return c.body
}

// failed returns the error that a body or an event holds although the status is 200.
func (c content) failed() []byte {
	if c.failure != nil {
		return c.failure
	}
	parts := c.events
	if !c.streamed {
		parts = []json.RawMessage{c.body}
	}
	for _, part := range parts {
		var said struct {
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal(part, &said) != nil {
			continue
		}
		switch string(bytes.TrimSpace(said.Error)) {
		case "", "null", `""`, "{}", "false":
		default:
			return part
		}
	}

	return nil
}

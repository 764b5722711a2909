package backend

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// tokenClock reads a body and notes when its events came: lines that hold JSON, by themselves or after "data:". Comments, which servers send to keep
// a connection alive, are none, and neither is the [DONE] at the end.
type tokenClock struct {
	body  []byte
	limit int64
	begin time.Time
	// seen is how much of the body has been looked at, line by line.
	seen        int
	events      int
	first, last time.Duration
}

// read reads all of source, up to one byte beyond the limit.
func (c *tokenClock) read(source io.Reader) error {
	limited := io.LimitReader(source, c.limit+1)
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)]
		}
		n, err := limited.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		c.look(time.Since(c.begin))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// look counts the events that have become whole by now.
func (c *tokenClock) look(now time.Duration) {
	for {
		end := bytes.IndexByte(c.body[c.seen:], '\n')
		if end < 0 {
			return
		}
		line := bytes.TrimSpace(c.body[c.seen : c.seen+end])
		c.seen += end + 1
		payload, _ := bytes.CutPrefix(line, []byte("data:"))
		if payload = bytes.TrimSpace(payload); len(payload) == 0 || payload[0] != '{' {
			continue
		}
		c.events++
		if c.events == 1 {
			c.first = now
		}
		c.last = now
	}
}

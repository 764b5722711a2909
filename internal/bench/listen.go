package main

import (
	"errors"
	"time"
)

// listen opens streams of tokens, spread over the time between two tokens, and measures how long each token was on its way.
func listen(j job) (result, error) {
	client, err := newClient(j.Address, j.Concurrency)
	if err != nil {
		return result{}, err
	}
	defer client.close()
	// Longer than anybody listens: a stream that ends is a failure.
	request := post(j.Size, askTokens(int(j.Rate*(j.Warm+j.For+patience).Seconds()), j.Rate))
	m := newMeter(j)
	for _, connection := range client.connections {
		reader := &tokenReader{seen: func(sent time.Duration) { m.add(sent, monotonic()) }}
		connection.answer.body = func(piece []byte) {
			if err := reader.feed(piece); err != nil {
				m.fail(err)
			}
		}
	}
	client.answered = func(c *connection, _ time.Duration) error {
		if c.answer.status != 200 {
			return unexpected(c.answer.status)
		}

		return errors.New("a stream of tokens ended early")
	}
	start, opened := monotonic(), 0
	at := func(n int) time.Duration {
		return start + time.Duration(float64(n)/j.Rate/float64(j.Concurrency)*float64(time.Second))
	}
	r, err := drive(client, m, func(now time.Duration) (time.Duration, error) {
		for ; opened < j.Concurrency; opened++ {
			if at(opened) > now {
				return at(opened), nil
			}
			if err := client.connections[opened].send(request, now); err != nil {
				return 0, err
			}
		}

		return m.end, nil
	})

	return r, err
}

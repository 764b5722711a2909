package main

import (
	"fmt"
	"time"
)

// closed keeps as many requests under way as the job says.
func closed(j job) (result, error) {
	client, err := newClient(j.Address, j.Concurrency)
	if err != nil {
		return result{}, err
	}
	defer client.close()
	request := post(j.Size, askBytes(j.Size))
	m := newMeter(j)
	client.answered = func(c *connection, now time.Duration) error {
		if c.answer.status == 200 {
			m.add(c.since, now)
		} else {
			m.fail(unexpected(c.answer.status))
		}

		return c.send(request, now)
	}
	for _, connection := range client.connections {
		if err := connection.send(request, monotonic()); err != nil {
			return result{}, err
		}
	}

	return drive(client, m, func(time.Duration) (time.Duration, error) { return m.end, nil })
}

// drive lets the client work until the measurement is over. Each time something has happened, due does what is due and says when to look again at the latest.
func drive(client *client, m *meter, due func(now time.Duration) (next time.Duration, err error)) (result, error) {
	for {
		over, err := m.tick(monotonic())
		if err != nil {
			return result{}, err
		}
		if over {
			return m.finish()
		}
		next, err := due(monotonic())
		if err != nil {
			return result{}, err
		}
		if !m.begun {
			next = min(next, m.begin)
		}
		if err := client.wait(min(next, m.end)); err != nil {
			return result{}, err
		}
	}
}

func unexpected(status int) error { return fmt.Errorf("answer: expected status 200, got %d", status) }

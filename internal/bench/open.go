package main

import "time"

// open sends at a fixed rate. A request that finds no free connection waits for one, and its latency counts from when it was due: who waits for a slow server is not left out.
func open(j job) (result, error) {
	client, err := newClient(j.Address, j.Concurrency)
	if err != nil {
		return result{}, err
	}
	defer client.close()
	request := post(j.Size, askBytes(j.Size))
	m := newMeter(j)
	free := append([]*connection(nil), client.connections...)
	client.answered = func(c *connection, now time.Duration) error {
		if c.answer.status == 200 {
			m.add(c.since, now)
		} else {
			m.fail(unexpected(c.answer.status))
		}
		free = append(free, c)

		return nil
	}
	start, sent := monotonic(), 0
	at := func(n int) time.Duration {
		return start + time.Duration(float64(n)/j.Rate*float64(time.Second))
	}

	return drive(client, m, func(now time.Duration) (time.Duration, error) {
		for at(sent) <= now {
			if len(free) == 0 {
				return m.end, nil // an answer comes first
			}
			connection := free[len(free)-1]
			free = free[:len(free)-1]
			if err := connection.send(request, at(sent)); err != nil {
				return 0, err
			}
			sent++
		}

		return at(sent), nil
	})
}

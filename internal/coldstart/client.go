package coldstart

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client sends the requests of one arm, the way the users of that arm would.
type Client struct {
	// URL is where requests are posted.
	URL string
	// Start is t=0.
	Start time.Time
	// Deadline limits one request, retries included.
	Deadline time.Duration
	// RetryEvery makes a client that tries again after a refused connection or a 5xx; 0 sends once.
	RetryEvery time.Duration
	// Ready, when set, makes a client that waits until the channel is closed before it sends.
	Ready <-chan struct{}
	// Read turns an answer's body into the form of Request.Want.
	Read func(body []byte) (string, error)

	transport *http.Transport
}

// maxAnswer bounds the answer that a client reads.
const maxAnswer = 64 << 20

// Open makes the client usable; Close gives its connections back.
func (c *Client) Open() {
	c.transport = &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 4096,
		DisableCompression:  true,
	}
}

// Close gives the client's connections back.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Send carries out one request; it is a Traffic's Send.
func (c *Client) Send(ctx context.Context, due time.Duration, request Request) Sample {
	ctx, cancel := context.WithDeadline(ctx, c.Start.Add(due).Add(c.Deadline))
	defer cancel()
	sample := Sample{Shape: request.Shape, Due: due}
	if c.Ready != nil {
		select {
		case <-c.Ready:
		case <-ctx.Done():
			sample.Err, sample.Done = "not ready within the deadline", time.Since(c.Start)

			return sample
		}
	}
	for {
		sample.Tries++
		c.try(ctx, request, &sample)
		again := c.RetryEvery > 0 && (sample.Err != "" || sample.Status >= 500)
		if !again || !waitUntil(ctx, time.Now().Add(c.RetryEvery)) {
			break
		}
	}
	sample.Done = time.Since(c.Start)

	return sample
}

func (c *Client) try(ctx context.Context, request Request, sample *Sample) {
	sample.Status, sample.Err, sample.Right = 0, "", false
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(request.Body))
	if err != nil {
		sample.Err = err.Error()

		return
	}
	req.Header.Set("Content-Type", "application/json")
	// http.Transport sends a request that it believes unsent a second time; an arm must see what a plain client sees.
	req.GetBody = nil
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		sample.Err = err.Error()

		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		sample.Err = err.Error()

		return
	}
	sample.Status = resp.StatusCode
	sample.Hold = ServerTiming(resp.Header, "hold")
	if resp.StatusCode == http.StatusOK {
		got, err := c.Read(body)
		sample.Right = err == nil && got == request.Want
	}
}

// ServerTiming returns the duration that the Server-Timing header gives for metric, 0 when it gives none.
func ServerTiming(header http.Header, metric string) time.Duration {
	for _, line := range header.Values("Server-Timing") {
		for entry := range strings.SplitSeq(line, ",") {
			fields := strings.Split(entry, ";")
			if strings.TrimSpace(fields[0]) != metric {
				continue
			}
			for _, field := range fields[1:] {
				if text, ok := strings.CutPrefix(strings.TrimSpace(field), "dur="); ok {
					if ms, err := strconv.ParseFloat(text, 64); err == nil {
						return time.Duration(ms * float64(time.Millisecond))
					}
				}
			}
		}
	}

	return 0
}

// Poll asks url every interval until it answers 200 or ctx ends, and returns whether it did.
func Poll(ctx context.Context, url string, interval time.Duration) bool {
	return pollStatus(ctx, url, interval, func(status int) bool { return status == http.StatusOK })
}

// PollUntilNot asks url every interval until it answers anything but 200, or nothing, and returns whether it did before ctx ended.
func PollUntilNot(ctx context.Context, url string, interval time.Duration) bool {
	return pollStatus(ctx, url, interval, func(status int) bool { return status != http.StatusOK })
}

// Status asks url once and returns the HTTP status, 0 when there was no answer.
func Status(ctx context.Context, url string) int {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()

	return status(ctx, &http.Client{Transport: transport, Timeout: 2 * time.Second}, url)
}

func pollStatus(ctx context.Context, url string, interval time.Duration, enough func(status int) bool) bool {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 2 * time.Second}
	for {
		if enough(status(ctx, client, url)) && ctx.Err() == nil {
			return true
		}
		if !waitUntil(ctx, time.Now().Add(interval)) {
			return false
		}
	}
}

// status returns the HTTP status of a GET, 0 when there was no answer.
func status(ctx context.Context, client *http.Client, url string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return 0
	}

	return resp.StatusCode
}

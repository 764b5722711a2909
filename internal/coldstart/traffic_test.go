package coldstart_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTrafficDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(995*time.Millisecond))
		defer cancel()
		traffic := coldstart.Traffic{
			Rate:     100,
			InFlight: 1000,
			Request:  func(i int) coldstart.Request { return coldstart.Request{Shape: fmt.Sprint(i)} },
			Send: func(_ context.Context, due time.Duration, request coldstart.Request) coldstart.Sample {
				time.Sleep(due) // the later it is, the slower the server: a closed loop would fall behind
				return coldstart.Sample{Shape: request.Shape, Due: due, Done: time.Since(start), Status: http.StatusOK}
			},
		}
		samples := traffic.Run(ctx, start)
		if len(samples) != 100 {
			t.Fatalf("got %d samples, want 100", len(samples))
		}
		for i, sample := range samples {
			due := time.Duration(i) * 10 * time.Millisecond
			if sample.Shape != fmt.Sprint(i) || sample.Due != due || sample.Latency() != due {
				t.Fatalf("sample %d: got %+v, want one due and slow by %s", i, sample, due)
			}
		}
	})
}

func TestTrafficBoundsItsOwnRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(95*time.Millisecond))
		defer cancel()
		samples := coldstart.Traffic{
			Rate:     100,
			InFlight: 3,
			Request:  func(int) coldstart.Request { return coldstart.Request{} },
			Send: func(context.Context, time.Duration, coldstart.Request) coldstart.Sample {
				time.Sleep(time.Hour)
				return coldstart.Sample{Status: http.StatusOK}
			},
		}.Run(ctx, start)
		if got := len(samples.Succeeded()); len(samples) != 10 || got != 3 {
			t.Errorf("got %d samples and %d successes, want 10 and 3", len(samples), got)
		}
	})
}

func TestClientsOfTheArms(t *testing.T) {
	t.Parallel()
	read := func(body []byte) (string, error) { return string(body), nil }
	t.Run("one that retries", func(t *testing.T) {
		t.Parallel()
		tries := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tries++; tries < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = fmt.Fprint(w, "seven")
		}))
		defer server.Close()
		client := &coldstart.Client{URL: server.URL, Start: time.Now(), Deadline: time.Minute, RetryEvery: time.Millisecond, Read: read}
		client.Open()
		defer client.Close()
		if got := client.Send(t.Context(), 0, coldstart.Request{Want: "seven"}); got.Due != 0 || got.Tries != 3 || !got.Succeeded() || !got.Right {
			t.Errorf("got %+v, want a right answer at the third try", got)
		}
	})
	t.Run("one whose request was due later", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer server.Close()
		client := &coldstart.Client{URL: server.URL, Start: time.Now().Add(-time.Hour), Deadline: time.Minute, Read: read}
		client.Open()
		defer client.Close()
		due := time.Since(client.Start)
		if got := client.Send(t.Context(), due, coldstart.Request{}); got.Due != due || got.Latency() <= 0 || got.Latency() > 30*time.Minute {
			t.Errorf("got %+v: latency counts from when the request was due", got)
		}
	})
	t.Run("one that does not", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		client := &coldstart.Client{URL: server.URL, Start: time.Now(), Deadline: time.Minute, Read: read}
		client.Open()
		defer client.Close()
		if got := client.Send(t.Context(), 0, coldstart.Request{}); got.Tries != 1 || got.Succeeded() || !strings.Contains(got.Err, "refused") {
			t.Errorf("got %+v, want one refused try", got)
		}
	})
	t.Run("one that waits in vain", func(t *testing.T) {
		t.Parallel()
		client := &coldstart.Client{Start: time.Now(), Deadline: time.Millisecond, Ready: make(chan struct{}), Read: read}
		client.Open()
		defer client.Close()
		if got := client.Send(t.Context(), 0, coldstart.Request{}); got.Tries != 0 || !strings.Contains(got.Err, "not ready") {
			t.Errorf("got %+v, want no try", got)
		}
	})
}

func TestRelaySwallowsInferencesOnly(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	relay := coldstart.NewRelay(target)
	server := httptest.NewServer(relay)
	defer server.Close()
	client := server.Client()
	client.Timeout = 100 * time.Millisecond
	infer := func() (int, error) {
		resp, err := client.Post(server.URL+"/v2/models/m/infer", "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if status, err := infer(); err != nil || status != http.StatusOK {
		t.Fatalf("before the fault: got %d, %v", status, err)
	}
	relay.Hang()
	if status, err := infer(); err == nil {
		t.Errorf("during the fault: got %d, want no answer", status)
	}
	if status := coldstart.Status(t.Context(), server.URL+"/v2/health/ready"); status != http.StatusOK {
		t.Errorf("health during the fault: got %d, want 200", status)
	}
	relay.Heal()
	if status, err := infer(); err != nil || status != http.StatusOK {
		t.Errorf("after the fault: got %d, %v", status, err)
	}
}

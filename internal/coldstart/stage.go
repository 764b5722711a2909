package coldstart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Stage is what all arms share: the same backend, started fresh for each, the same traffic from t=0, and the same expectations.
type Stage struct {
	// Backend returns the command of a backend that serves at address.
	Backend func(address string) []string
	// Sidecar returns the command of a Pilotlight in front of a backend.
	Sidecar func(backend string, listen SidecarAddresses) []string
	// InferPath is where requests are posted, ReadyPath where the backend itself says whether it is ready.
	InferPath, ReadyPath string
	// Rate is the number of requests a second.
	Rate float64
	// Tail is how long the traffic goes on after ready; its second half is what "warm" is measured on.
	Tail time.Duration
	// Deadline limits one request.
	Deadline time.Duration
	Request  func(i int) Request
	Read     func(body []byte) (string, error)
	// Log takes what the servers print.
	Log io.Writer
	// Say is told, for people, what is going on.
	Say func(text string)
}

// SidecarAddresses are the ports of a Pilotlight.
type SidecarAddresses struct {
	Data, Health, Admin string
}

const (
	// longestStart bounds the time to ready in any arm.
	longestStart = 2 * time.Minute
	// pollEvery is how often the bench asks a ready endpoint.
	pollEvery = time.Millisecond
	// stopPatience is how long a server gets to end when asked to.
	stopPatience = 15 * time.Second
	// roomInFlight bounds the client's requests in flight.
	roomInFlight = 20000
	// addedRounds is how many requests are sent each way to measure what Pilotlight adds.
	addedRounds = 400
)

// Run is one arm's result.
type Run struct {
	Samples Samples
	Ready   time.Duration
}

// Direct has clients that send at once and retry every 100 ms. The arm is ready at its first right answer.
func (s *Stage) Direct(ctx context.Context) (Run, error) {
	address, backend, err := s.startBackend(ctx)
	if err != nil {
		return Run{}, err
	}
	defer backend.Kill()
	client := s.client(address, backend.Started)
	client.RetryEvery = 100 * time.Millisecond
	answered := make(chan struct{})
	first := sync.OnceFunc(func() { close(answered) })
	client.Read = func(body []byte) (string, error) {
		got, err := s.Read(body)
		if err == nil {
			first()
		}

		return got, err
	}

	return s.drive(ctx, client, answered)
}

// ServerReady has clients that wait until the server's own ready endpoint says 200, then send.
func (s *Stage) ServerReady(ctx context.Context) (Run, error) {
	address, backend, err := s.startBackend(ctx)
	if err != nil {
		return Run{}, err
	}
	defer backend.Kill()
	client := s.client(address, backend.Started)
	ready := make(chan struct{})
	client.Ready = ready
	go func() {
		if Poll(ctx, "http://"+address+s.ReadyPath, pollEvery) {
			close(ready)
		}
	}()

	return s.drive(ctx, client, ready)
}

// Pilotlight has clients that send at once, to a Pilotlight in front of the backend. In a pod the sidecar starts first, so it does here.
// The arm is ready when /readyz says 200. The pair goes on running.
func (s *Stage) Pilotlight(ctx context.Context) (Run, *Pair, error) {
	pair, err := s.StartPair(ctx)
	if err != nil {
		return Run{}, nil, err
	}
	client := s.client(pair.Sidecar.Data, pair.backend.Started)
	ready := make(chan struct{})
	go func() {
		if Poll(ctx, pair.ReadyURL(), pollEvery) {
			close(ready)
		}
	}()
	run, err := s.drive(ctx, client, ready)
	if err != nil {
		return run, nil, errors.Join(err, pair.Stop())
	}

	return run, pair, nil
}

// StartPair starts a Pilotlight, waits until it listens, then starts the backend behind it.
func (s *Stage) StartPair(ctx context.Context) (*Pair, error) {
	address, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	pair, err := s.StartSidecar(ctx, address)
	if err != nil {
		return nil, err
	}
	pair.backend, err = Start(ctx, s.Log, s.Backend(address)...)
	if err != nil {
		return nil, errors.Join(err, pair.Stop())
	}

	return pair, nil
}

// StartSidecar starts a Pilotlight in front of a backend that somebody else runs, and waits until it listens.
func (s *Stage) StartSidecar(ctx context.Context, backend string) (*Pair, error) {
	pair := &Pair{BackendAddress: backend, stage: s}
	for _, address := range []*string{&pair.Sidecar.Data, &pair.Sidecar.Health, &pair.Sidecar.Admin} {
		free, err := FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		*address = free
	}
	var err error
	if pair.sidecar, err = Start(ctx, s.Log, s.Sidecar(backend, pair.Sidecar)...); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if !Poll(starting, "http://"+pair.Sidecar.Health+"/livez", pollEvery) {
		return nil, errors.Join(fmt.Errorf("start pilotlight: /livez did not answer within %s", stopPatience), pair.Stop())
	}

	return pair, nil
}

// Answers asks a fresh backend directly for n answers, one after the other.
func (s *Stage) Answers(ctx context.Context, n int, body func(i int) []byte) ([]string, error) {
	address, backend, err := s.startBackend(ctx)
	if err != nil {
		return nil, err
	}
	defer backend.Kill()
	starting, cancel := context.WithTimeout(ctx, longestStart)
	defer cancel()
	if !Poll(starting, "http://"+address+s.ReadyPath, pollEvery) {
		return nil, fmt.Errorf("start the backend: not ready within %s", longestStart)
	}
	client := s.client(address, backend.Started)
	client.Deadline = longestStart
	client.Open()
	defer client.Close()
	answers := make([]string, n)
	for i := range n {
		client.Read = func(body []byte) (string, error) {
			answer, err := s.Read(body)
			answers[i] = answer

			return answer, err
		}
		if sample := client.Send(ctx, time.Since(client.Start), Request{Body: body(i)}); !sample.Succeeded() || answers[i] == "" {
			return nil, fmt.Errorf("ask directly for answer %d: status %d %s", i, sample.Status, sample.Err)
		}
	}

	return answers, nil
}

// Added returns what the median request costs more through a warm pair than directly: both ways in turn, one request at a time.
func (s *Stage) Added(ctx context.Context, pair *Pair) (time.Duration, error) {
	start := time.Now()
	direct, through := s.client(pair.BackendAddress, start), s.client(pair.Sidecar.Data, start)
	var latencies [2][]time.Duration
	for way, client := range []*Client{direct, through} {
		client.Open()
		defer client.Close()
		latencies[way] = make([]time.Duration, 0, addedRounds)
	}
	for i := range addedRounds {
		request := s.Request(i)
		for way, client := range []*Client{direct, through} {
			sample := client.Send(ctx, time.Since(start), request)
			if !sample.Succeeded() {
				return 0, fmt.Errorf("measure what Pilotlight adds: status %d %s", sample.Status, sample.Err)
			}
			latencies[way] = append(latencies[way], sample.Latency())
		}
	}

	return Percentile(latencies[1], 50) - Percentile(latencies[0], 50), nil
}

// drive sends the traffic from t=0 until Tail after ready.
func (s *Stage) drive(ctx context.Context, client *Client, ready <-chan struct{}) (Run, error) {
	client.Open()
	defer client.Close()
	ctx, stop := context.WithTimeout(ctx, longestStart+s.Tail)
	defer stop()
	var (
		readyAt  time.Duration
		watching sync.WaitGroup
	)
	watching.Go(func() {
		defer stop()
		select {
		case <-ready:
			readyAt = time.Since(client.Start)
			s.Say(fmt.Sprintf("ready after %.2f s", readyAt.Seconds()))
			waitUntil(ctx, time.Now().Add(s.Tail))
		case <-ctx.Done():
		}
	})
	traffic := Traffic{Rate: s.Rate, Request: s.Request, Send: client.Send, InFlight: roomInFlight}
	samples := traffic.Run(ctx, client.Start)
	watching.Wait()
	if readyAt == 0 {
		return Run{Samples: samples}, fmt.Errorf("drive traffic: not ready within %s", longestStart)
	}

	return Run{Samples: samples, Ready: readyAt}, nil
}

func (s *Stage) client(address string, start time.Time) *Client {
	return &Client{URL: "http://" + address + s.InferPath, Start: start, Deadline: s.Deadline, Read: s.Read}
}

func (s *Stage) startBackend(ctx context.Context) (string, *Process, error) {
	address, err := FreeAddress(ctx)
	if err != nil {
		return "", nil, err
	}
	backend, err := Start(ctx, s.Log, s.Backend(address)...)

	return address, backend, err
}

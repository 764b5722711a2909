package coldstart

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// lead is how long traffic runs before a fault, and after it.
	lead = 3 * time.Second
	// longestFault bounds how long the bench waits for a fault to be noticed or healed.
	longestFault = time.Minute
	// hangRate is the traffic, in requests a second, under which a hang has to be noticed.
	hangRate = 10
)

// Restart kills the backend of a warm pair under full load, starts it again at once, and reports what users saw.
func (s *Stage) Restart(ctx context.Context, pair *Pair) (RestartReport, error) {
	start := time.Now()
	client := s.client(pair.Sidecar.Data, start)
	client.Open()
	defer client.Close()
	var (
		report  RestartReport
		killed  time.Duration
		failure error
		fault   sync.WaitGroup
	)
	driving, stop := context.WithTimeout(ctx, longestFault)
	defer stop()
	fault.Go(func() {
		defer stop()
		Wait(driving, lead)
		killed = time.Since(start)
		if failure = pair.RestartBackend(ctx); failure != nil {
			return
		}
		if !PollUntilNot(driving, pair.ReadyURL(), pollEvery) || !Poll(driving, pair.ReadyURL(), pollEvery) {
			failure = fmt.Errorf("restart the backend: not ready again within %s", longestFault)

			return
		}
		report.ReadyAgainS = Seconds(time.Since(start) - killed)
		Wait(driving, lead)
	})
	samples := Traffic{Rate: s.Rate, Request: s.Request, Send: client.Send, InFlight: roomInFlight}.Run(driving, start)
	fault.Wait()
	report.Requests = len(samples)
	report.Held = len(samples.Held())
	for _, sample := range samples {
		switch {
		case sample.Succeeded():
		case sample.Due <= killed && sample.Status != http.StatusServiceUnavailable:
			report.InFlightFailed++
		default:
			report.Refused++
		}
	}

	return report, failure
}

// Relayed is a Pilotlight in front of a healthy backend, with a [Relay] between them.
type Relayed struct {
	*Pair

	relay  *Relay
	server *http.Server
}

// StartRelayed starts a Pilotlight whose backend is a relay to the backend at address, and waits until it is ready.
func (s *Stage) StartRelayed(ctx context.Context, address string) (*Relayed, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the relay: %w", err)
	}
	relay := NewRelay(&url.URL{Scheme: "http", Host: address})
	server := &http.Server{Handler: relay, ReadHeaderTimeout: lead}
	go func() { _ = server.Serve(listener) }()
	pair, err := s.StartSidecar(ctx, listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	relayed := &Relayed{Pair: pair, relay: relay, server: server}
	starting, cancel := context.WithTimeout(ctx, longestStart)
	defer cancel()
	if !Poll(starting, pair.ReadyURL(), pollEvery) {
		return nil, errors.Join(fmt.Errorf("start behind the relay: not ready within %s", longestStart), relayed.Stop())
	}

	return relayed, nil
}

// Stop ends the Pilotlight and the relay; the backend goes on.
func (r *Relayed) Stop() error { return errors.Join(r.Pair.Stop(), r.server.Close()) }

// Hang makes inferences hang behind a health endpoint that goes on saying 200, under light traffic, and reports when it was noticed.
func (s *Stage) Hang(ctx context.Context, relayed *Relayed) (HangReport, error) {
	start := time.Now()
	client := s.client(relayed.Sidecar.Data, start)
	client.Open()
	defer client.Close()
	report := HangReport{Simulated: "a relay between Pilotlight and the backend swallows inferences; everything else is answered by the backend"}
	driving, stop := context.WithTimeout(ctx, 2*longestFault)
	defer stop()
	var (
		failure error
		fault   sync.WaitGroup
	)
	fault.Go(func() {
		defer stop()
		Wait(driving, lead)
		hung := time.Now()
		relayed.relay.Hang()
		if !PollUntilNot(driving, relayed.ReadyURL(), pollEvery) {
			failure = errors.New("hang: never noticed")

			return
		}
		report.NoticedS = Seconds(time.Since(hung))
		report.HealthSaid = Status(driving, "http://"+relayed.BackendAddress+s.ReadyPath)
		healed := time.Now()
		relayed.relay.Heal()
		if !Poll(driving, relayed.ReadyURL(), pollEvery) {
			failure = errors.New("hang: never ready again after the fault had ended")

			return
		}
		report.ReadyAgainS = Seconds(time.Since(healed))
	})
	Traffic{Rate: hangRate, Request: s.Request, Send: client.Send, InFlight: roomInFlight}.Run(driving, start)
	fault.Wait()

	return report, failure
}

// Long sends one request that takes a healthy backend far longer than anything before, alone, so that nothing else proves the backend alive,
// and reports whether it was left alone: answered rightly, and readiness never taken back.
func (s *Stage) Long(ctx context.Context, relayed *Relayed, request Request) (LongReport, error) {
	start := time.Now()
	client := s.client(relayed.Sidecar.Data, start)
	client.Deadline = longestFault
	client.Open()
	defer client.Close()
	watching, stop := context.WithCancel(ctx)
	withdrawn := make(chan bool, 1)
	go func() { withdrawn <- PollUntilNot(watching, relayed.ReadyURL(), pollEvery) }()
	sample := client.Send(ctx, 0, request)
	stop()
	report := LongReport{AnswerS: Seconds(sample.Latency()), LeftAlone: !<-withdrawn && sample.Right}
	if sample.Err != "" {
		return report, fmt.Errorf("send a long request: %s", sample.Err)
	}

	return report, nil
}

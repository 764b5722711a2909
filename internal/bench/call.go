package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// call makes gRPC load over one connection, as clients do that keep a channel.
func call(ctx context.Context, j job) (result, error) {
	channel, err := grpc.NewClient(j.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return result{}, fmt.Errorf("connect to %s: %w", j.Address, err)
	}
	defer func() { _ = channel.Close() }()
	work := unaryCalls
	if j.Kind == grpcStream {
		work = streamedMessages
	}
	m := &sharedMeter{meter: newMeter(j)}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for range j.Concurrency {
		workers.Go(func() {
			if err := work(ctx, channel, m); err != nil && ctx.Err() == nil {
				m.fail(err)
				cancel() // one worker less would be another measurement
			}
		})
	}
	r, err := m.watch(ctx)
	cancel()
	workers.Wait()
	if err == nil && m.outcome.Failed > 0 {
		r.Failed, r.Failure = m.outcome.Failed, m.outcome.Failure
	}

	return r, err
}

// unaryCalls calls until ctx ends.
func unaryCalls(ctx context.Context, channel *grpc.ClientConn, m *sharedMeter) error {
	in, out := &wrapperspb.BytesValue{Value: make([]byte, m.job.Size)}, &wrapperspb.BytesValue{}
	for {
		since := monotonic()
		if err := channel.Invoke(ctx, unaryMethod, in, out); err != nil {
			return fmt.Errorf("call %s: %w", unaryMethod, err)
		}
		if len(out.GetValue()) != m.job.Size {
			return fmt.Errorf("call %s: expected %d bytes back, got %d", unaryMethod, m.job.Size, len(out.GetValue()))
		}
		m.add(since, monotonic())
	}
}

// underWay is how many messages of a stream are on their way at once. Without a bound both directions fill up to their windows, and
// what is measured then is who gives way.
const underWay = 16

// streamedMessages sends a message for each that came back until ctx ends.
func streamedMessages(ctx context.Context, channel *grpc.ClientConn, m *sharedMeter) error {
	stream, err := channel.NewStream(ctx, &streamDescription, bidiMethod)
	if err != nil {
		return fmt.Errorf("open %s: %w", bidiMethod, err)
	}
	message, back := &wrapperspb.BytesValue{Value: make([]byte, m.job.Size)}, &wrapperspb.BytesValue{}
	for range underWay {
		if err := stream.SendMsg(message); err != nil {
			return fmt.Errorf("send on %s: %w", bidiMethod, err)
		}
	}
	for {
		if err := stream.RecvMsg(back); err != nil {
			return fmt.Errorf("receive on %s: %w", bidiMethod, err)
		}
		if err := stream.SendMsg(message); err != nil {
			return fmt.Errorf("send on %s: %w", bidiMethod, err)
		}
		now := monotonic()
		m.add(now, now)
	}
}

// sharedMeter is a meter for many goroutines.
type sharedMeter struct {
	*meter

	mu sync.Mutex
}

func (m *sharedMeter) add(since, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meter.add(since, now)
}

func (m *sharedMeter) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meter.fail(err)
}

// watch begins and ends the measurement.
func (m *sharedMeter) watch(ctx context.Context) (result, error) {
	for {
		m.mu.Lock()
		over, err := m.tick(monotonic())
		next := m.end
		if !m.begun {
			next = m.begin
		}
		if over && err == nil {
			r, err := m.finish()
			m.mu.Unlock()

			return r, err
		}
		m.mu.Unlock()
		if err != nil {
			return result{}, err
		}
		select {
		case <-time.After(max(0, next-monotonic())):
		case <-ctx.Done():
			m.mu.Lock()
			defer m.mu.Unlock()

			return result{}, fmt.Errorf("gRPC load ended early: %s", m.outcome.Failure)
		}
	}
}

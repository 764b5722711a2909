package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	serviceName = "grpc.testing.TestService"
	// patience is how long one call may take, being held included.
	patience = 60 * time.Second
	// pieces and pause make a stream whose pieces can only arrive apart if nobody on the way gathers them.
	pieces = 20
	pause  = 25 * time.Millisecond
	// large is a message beyond the 4 MiB at which gRPC libraries stop by default.
	large = 5 << 20
)

// connect dials with grpc-go's defaults, but for the size of messages.
func connect(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
}

// callHeld makes one call, which waits for the server where somebody holds it.
func callHeld(ctx context.Context, address string, out io.Writer) error {
	return call(ctx, address, func(ctx context.Context, conn *grpc.ClientConn) error {
		started := time.Now()
		server, err := reflect(ctx, conn, serviceName)
		if err != nil {
			return err
		}
		report(out, "held: services listed by reflection", slices.Contains(server.services, serviceName), strings.Join(server.services, " "))
		_, _ = fmt.Fprintf(out, "figure\theld_ms\t%d\n", time.Since(started).Milliseconds())

		return nil
	})
}

// callAll makes every kind of call.
func callAll(ctx context.Context, address string, out io.Writer) error {
	return call(ctx, address, func(ctx context.Context, conn *grpc.ClientConn) error {
		server, err := reflect(ctx, conn, serviceName)
		if err != nil {
			return err
		}
		report(out, "services listed by reflection", slices.Contains(server.services, serviceName), strings.Join(server.services, " "))
		for _, step := range []func(context.Context, *reflected, io.Writer) error{unary, refused, stream, duplex} {
			if err := step(ctx, server, out); err != nil {
				return err
			}
		}

		return nil
	})
}

func call(ctx context.Context, address string, do func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := connect(address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, err)
	}

	return errors.Join(do(ctx, conn), conn.Close())
}

// unary sends a small and a large payload and wants the same bytes back.
func unary(ctx context.Context, server *reflected, out io.Writer) error {
	for _, size := range []int{1 << 10, large} {
		sent := bytes.Repeat([]byte{0, 1, 254, 255}, size/4)
		m, err := server.method("UnaryCall", `{"payload":{"body":"`+base64.StdEncoding.EncodeToString(sent)+`"}}`)
		if err != nil {
			return err
		}
		got := dynamicpb.NewMessage(m.answer)
		if err := server.conn.Invoke(ctx, m.path, m.request, got); err != nil {
			return fmt.Errorf("call %s with %d bytes: %w", m.path, size, err)
		}
		report(out, fmt.Sprintf("unary, %d bytes there and back", size), bytes.Equal(payload(got), sent), fmt.Sprintf("%d bytes came back", len(payload(got))))
	}

	return nil
}

// refused asks for an error, whose code and text travel in trailers.
func refused(ctx context.Context, server *reflected, out io.Writer) error {
	const text = "as asked for: 100% \u2713"
	m, err := server.method("UnaryCall", fmt.Sprintf(`{"responseStatus":{"code":%d,"message":%q}}`, codes.DataLoss, text))
	if err != nil {
		return err
	}
	err = server.conn.Invoke(ctx, m.path, m.request, dynamicpb.NewMessage(m.answer))
	got := status.Convert(err)
	report(out, "an error keeps its code and text", got.Code() == codes.DataLoss && got.Message() == text, got.String())

	return nil
}

// stream reads a server stream and looks at when each message came.
func stream(ctx context.Context, server *reflected, out io.Writer) error {
	parameter := fmt.Sprintf(`{"size":1000,"intervalUs":%d}`, pause.Microseconds())
	m, err := server.method("StreamingOutputCall", `{"responseParameters":[`+strings.Join(slices.Repeat([]string{parameter}, pieces), ",")+`]}`)
	if err != nil {
		return err
	}
	opened, err := server.conn.NewStream(ctx, &m.desc, m.path)
	if err != nil {
		return fmt.Errorf("open %s: %w", m.path, err)
	}
	started := time.Now()
	if err := errors.Join(opened.SendMsg(m.request), opened.CloseSend()); err != nil {
		return fmt.Errorf("send to %s: %w", m.path, err)
	}
	var arrivals []time.Duration
	whole := true
	for {
		got := dynamicpb.NewMessage(m.answer)
		err := opened.RecvMsg(got)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read message %d of %s: %w", len(arrivals)+1, m.path, err)
		}
		arrivals = append(arrivals, time.Since(started))
		whole = whole && len(payload(got)) == 1000
	}
	if len(arrivals) == 0 {
		report(out, "server stream, whole", false, "no message came")

		return nil
	}
	first, last := arrivals[0], arrivals[len(arrivals)-1]
	report(out, "server stream, whole", whole && len(arrivals) == pieces, fmt.Sprintf("%d messages", len(arrivals)))
	report(out, "server stream, piece by piece", first < last/4, fmt.Sprintf("first after %d ms, last after %d ms", first.Milliseconds(), last.Milliseconds()))
	_, _ = fmt.Fprintf(out, "figure\tstream_first_ms\t%d\nfigure\tstream_last_ms\t%d\n", first.Milliseconds(), last.Milliseconds())

	return nil
}

// duplex sends a message only after the answer to the one before has come, and half-closes last.
func duplex(ctx context.Context, server *reflected, out io.Writer) error {
	m, err := server.method("FullDuplexCall", `{"responseParameters":[{"size":64}]}`)
	if err != nil {
		return err
	}
	opened, err := server.conn.NewStream(ctx, &m.desc, m.path)
	if err != nil {
		return fmt.Errorf("open %s: %w", m.path, err)
	}
	answered := 0
	for range pieces {
		if err := opened.SendMsg(m.request); err != nil {
			return fmt.Errorf("send message %d to %s: %w", answered+1, m.path, err)
		}
		if err := opened.RecvMsg(dynamicpb.NewMessage(m.answer)); err != nil {
			return fmt.Errorf("read answer %d of %s: %w", answered+1, m.path, err)
		}
		answered++
	}
	err = opened.CloseSend()
	end := opened.RecvMsg(dynamicpb.NewMessage(m.answer))
	report(out, "both ways at once", answered == pieces && err == nil && errors.Is(end, io.EOF), fmt.Sprintf("%d messages, each answered before the next was sent", answered))

	return nil
}

// report prints one thing checked.
func report(out io.Writer, name string, ok bool, seen string) {
	verdict := "failed"
	if ok {
		verdict = "ok"
	}
	_, _ = fmt.Fprintf(out, "check\t%s\t%s\t%s\n", name, verdict, seen)
}

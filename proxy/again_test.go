package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// chunked makes the body of a request of unknown length out of what is written to the pipe.
func chunked(t *testing.T) (*Body, *io.PipeWriter) {
	t.Helper()
	reader, writer := io.Pipe()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", reader)
	r.ContentLength = -1
	b := &Body{}
	if !b.init(httptest.NewRecorder(), r, 0, false) {
		t.Fatal("there is no body")
	}

	return b, writer
}

// What the reader of an attempt that is over gets from the client belongs to the next attempt.
func TestBodyReadByAnAttemptThatIsOver(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		budget int64
		want   string
		err    error
	}{
		{"it is kept", 1 << 20, "first second", io.EOF},
		{"there is no memory to keep it", 0, "", errBodyClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body, client := chunked(t)
				defer func() { _ = client.Close() }()
				var memory budget
				memory.limit.Store(test.budget)
				var watch clock
				one := body.begin(&watch)
				body.retain(&memory, 1<<20, 1<<20)
				go func() { _, _ = one.Read(make([]byte, 100)) }()
				synctest.Wait() // it waits for the client
				if !body.rewind() {
					t.Fatal("a body of which nothing was read cannot be sent again")
				}
				_ = one.Close()
				two := body.begin(&watch)
				body.retain(&memory, 1<<20, 1<<20)
				go func() {
					_, _ = io.WriteString(client, "first ")
					_, _ = io.WriteString(client, "second")
					_ = client.Close()
				}()
				var got []byte
				buffer := make([]byte, 100)
				var err error
				for err == nil {
					var n int
					n, err = two.Read(buffer)
					got = append(got, buffer[:n]...)
				}
				if string(got) != test.want || err != test.err { //nolint:errorlint // it is that one
					t.Errorf("the next attempt read %q and %v, expected %q and %v", got, err, test.want, test.err)
				}
				if (body.broken() != nil) != (test.err != io.EOF) { //nolint:errorlint // it is that one
					t.Errorf("broken: %v", body.broken())
				}
				go func() { _, _ = io.Copy(io.Discard, body.src) }() // whatever is left
				synctest.Wait()
				body.finish(true)
				if used := memory.used.Load(); used != 0 {
					t.Errorf("%d bytes are still reserved", used)
				}
			})
		})
	}
}

// What can do without memory leaves half of it to what is held, also as it grows.
func TestRetainedBodiesLeaveHalfOfTheMemory(t *testing.T) {
	t.Parallel()
	body, client := chunked(t)
	var memory budget
	memory.limit.Store(8 << 10)
	var watch clock
	one := body.begin(&watch)
	body.retain(&memory, 1<<20, 1<<20)
	go func() {
		for range 15 {
			_, _ = client.Write(make([]byte, firstRead))
		}
		_ = client.Close()
	}()
	buffer := make([]byte, firstRead)
	most := int64(0)
	for {
		_, err := one.Read(buffer)
		most = max(most, memory.used.Load())
		if err != nil {
			break
		}
	}
	if most > 4<<10 || most < firstRead {
		t.Errorf("%d bytes were reserved, expected up to half of %d", most, 8<<10)
	}
	if body.rewind() {
		t.Error("a body that is not kept was rewound")
	}
	body.finish(true)
	if used := memory.used.Load(); used != 0 {
		t.Errorf("%d bytes are still reserved", used)
	}
}

// TestABodyThatWasKeptIsReadAheadAsAnyOther has a body of unknown length that was not held at first, and is after the backend took none of it.
func TestABodyThatWasKeptIsReadAheadAsAnyOther(t *testing.T) {
	t.Parallel()
	const ahead = 2 * smallBody
	body, client := chunked(t)
	defer shut(client)
	var memory budget
	memory.limit.Store(1 << 20)
	body.retain(&memory, 1<<20, ahead)
	if !body.again(1 << 20) {
		t.Fatal("a body of which nothing was read cannot be sent again")
	}
	if outcome, decided := body.reserve(&memory, 1<<20, ahead); decided {
		t.Fatalf("reserved: %v", outcome)
	}
	room := 0
	for next := body.room(); next != nil; next = body.room() {
		body.buf = body.buf[:cap(body.buf)]
		room += len(next)
	}
	if room != ahead {
		t.Errorf("%d bytes are read ahead, expected %d", room, ahead)
	}
	go func() { _, _ = io.Copy(io.Discard, body.src) }() // whatever is left
}

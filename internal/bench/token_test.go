package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTokensSurviveAnyCut(t *testing.T) {
	t.Parallel()
	want := []time.Duration{1, time.Hour, 3}
	var stream []byte
	for _, sent := range want {
		before := len(stream)
		if stream = appendToken(stream, sent); len(stream)-before != tokenSize {
			t.Fatalf("a token has %d bytes, want %d", len(stream)-before, tokenSize)
		}
	}
	for size := 1; size <= len(stream); size++ {
		var got []time.Duration
		reader := &tokenReader{seen: func(sent time.Duration) { got = append(got, sent) }}
		for piece := range slices.Chunk(stream, size) {
			if err := reader.feed(piece); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: got %v, want %v", size, got, want)
		}
	}
}

func TestWhatIsNoTokenIsAnError(t *testing.T) {
	t.Parallel()
	reader := &tokenReader{seen: func(time.Duration) { t.Error("seen") }}
	if err := reader.feed([]byte("event: x\n\n")); err == nil || !strings.Contains(err.Error(), `got "event: x"`) {
		t.Errorf("got %v", err)
	}
}

package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// A client whose machine died says nothing, not even goodbye. Its watch must not stay for ever.
func TestAWatchOfAClientThatVanishedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := config.Default()
		settings.Backend.HTTP = units.Address{Network: "tcp", Host: "localhost:8000"}
		settings.Listen.AdminTokenFile.Value = filepath.Join(t.TempDir(), "token")
		p, err := newPilot(settings, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		listener := memnet.Listen()
		served := make(chan error, 1)
		go func() { served <- p.health.Serve(listener) }()
		defer func() {
			_ = p.health.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}()
		client, err := listener.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		var words bytes.Buffer
		words.WriteString(http2.ClientPreface)
		frames := http2.NewFramer(&words, client)
		head := &bytes.Buffer{}
		encoder := hpack.NewEncoder(head)
		for _, field := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Watch"}, {":authority", "mem"}, {"content-type", "application/grpc"},
		} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		_ = frames.WriteSettings()
		_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
		_ = frames.WriteData(1, true, make([]byte, 5)) // an empty message: the pod
		if _, err := client.Write(words.Bytes()); err != nil {
			t.Fatal(err)
		}
		began, answers := time.Now(), 0
		for { // it hears everything and answers nothing
			frame, err := frames.ReadFrame()
			if err != nil {
				if took := time.Since(began); !errors.Is(err, io.EOF) || took != quietClient+slowClient {
					t.Errorf("the connection ended after %v, expected %v: %v", took, quietClient+slowClient, err)
				}

				break
			}
			if frame.Header().Type == http2.FrameData {
				answers++
			}
		}
		if answers != 1 {
			t.Errorf("%d answers, expected the first one", answers)
		}
	})
}

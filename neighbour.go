package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	// callLimit bounds one question to a Pilotlight beside us. It answers in milliseconds, and a probe's own limit is a second by default.
	callLimit = 900 * time.Millisecond
	// callAnswer is how much of an answer is read.
	callAnswer = 4 << 10
)

// neighbour returns the configuration of the Pilotlight of this pod: that of the file it was started with, if there is one, and otherwise what the environment and the defaults say.
func neighbour(std *stdio, path string, flags []config.Override) (*config.Config, error) {
	source := config.Source{Path: path, Env: std.env, Overrides: flags}
	loaded, _, err := config.Load(source)
	if err != nil && path == "" { // perhaps only since nobody says which backend it has, which is not asked here
		source.Overrides = append(source.Overrides, config.Override{Flag: "--backend", Path: "backend.http", Text: "localhost:8000"})
		loaded, _, err = config.Load(source)
	}
	if err != nil {
		return nil, err
	}

	return std.resolver().Resolve(loaded), nil
}

// call asks the Pilotlight that listens at an address, and returns the first line of what it says.
func call(ctx context.Context, method string, at units.Listen, path, token string) (status int, line string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			address := at.Host
			if strings.HasPrefix(address, ":") {
				address = "localhost" + address
			}

			return (&net.Dialer{}).DialContext(ctx, at.Network, address)
		},
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := transport.RoundTrip(request) // not by a client, which would follow a redirect
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", callLimit)
		}

		return 0, "", fmt.Errorf("ask %s at %s: %w", path, at, err)
	}
	defer func() { _ = answer.Body.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(answer.Body, callAnswer))
	if err != nil {
		return 0, "", fmt.Errorf("read the answer of %s at %s: %w", path, at, err)
	}
	line, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")

	return answer.StatusCode, line, nil
}

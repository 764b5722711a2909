package main

import (
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func TestDeniedPathsAreThoseOfTheServerTypeOrOfTheList(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		deny  units.AutoList
		path  string
		wants bool
	}{
		{"auto denies control", nil, "/v2/repository/models/m/unload", true},
		{"auto denies control by gRPC", nil, "/inference.GRPCInferenceService/RepositoryModelUnload", true},
		{"auto lets work pass", nil, "/v2/models/m/infer", false},
		{"a list denies what it names", units.AutoList{"/v2/models/secret/*"}, "/v2/models/secret/infer", true},
		{"a list takes the place of auto", units.AutoList{"/v2/models/secret/*"}, "/v2/repository/models/m/unload", false},
		{"an empty list allows all", units.AutoList{}, "/v2/repository/models/m/unload", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Listen.Deny = test.deny
			client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "127.0.0.1:9"})
			if err != nil {
				t.Fatal(err)
			}
			runner, err := warmup.NewRunner(warmup.Settings{Client: client, Dialect: backend.NewOIP(client)})
			if err != nil {
				t.Fatal(err)
			}
			p := &pilot{config: c, runner: runner}
			if got := p.denied()(test.path); got != test.wants {
				t.Errorf("%s: %v, want %v", test.path, got, test.wants)
			}
		})
	}
}

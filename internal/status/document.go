package status

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// Document is the answer of /statusz: what each part says about itself at one moment.
type Document struct {
	Version string          `json:"version"`
	At      time.Time       `json:"at"`
	Health  health.Snapshot `json:"health"`
	Gate    any             `json:"gate,omitempty"`
	Clients any             `json:"clients,omitempty"`
	Circuit any             `json:"circuit,omitempty"`
	Warmup  any             `json:"warmup,omitempty"`
	Cold    any             `json:"cold_hits,omitempty"`
}

// document asks each part.
func (s Settings) document() Document {
	part := func(ask func() any) any {
		if ask == nil {
			return nil
		}

		return ask()
	}
	document := Document{Version: s.Version, At: time.Now(), Gate: part(s.Gate), Clients: part(s.Clients), Circuit: part(s.Circuit), Warmup: part(s.Warmup), Cold: part(s.Cold)}
	if s.Health != nil {
		document.Health = s.Health()
	}

	return document
}

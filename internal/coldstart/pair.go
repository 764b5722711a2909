package coldstart

import (
	"context"
)

// Pair is a Pilotlight with the backend behind it.
type Pair struct {
	Sidecar SidecarAddresses
	// BackendAddress is where the backend serves.
	BackendAddress string

	stage   *Stage
	sidecar *Process
	backend *Process
}

// ReadyURL is where Kubernetes would ask whether the pair is ready.
func (p *Pair) ReadyURL() string { return "http://" + p.Sidecar.Health + "/readyz" }

// InferURL is where users post their requests.
func (p *Pair) InferURL() string { return "http://" + p.Sidecar.Data + p.stage.InferPath }

// RestartBackend kills the backend and starts it again at the same address, as a kubelet would, but at once.
func (p *Pair) RestartBackend(ctx context.Context) error {
	p.backend.Kill()
	backend, err := Start(ctx, p.stage.Log, p.stage.Backend(p.BackendAddress)...)
	if err != nil {
		return err
	}
	p.backend = backend

	return nil
}

// Stop ends both, Pilotlight first and politely.
func (p *Pair) Stop() error {
	var err error
	if p.sidecar != nil {
		err = p.sidecar.Stop(stopPatience)
	}
	if p.backend != nil {
		p.backend.Kill()
	}

	return err
}

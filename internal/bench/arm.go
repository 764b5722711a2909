package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// arm is one way to the origin.
type arm struct {
	name string
	// what says in a few words what it is.
	what string
	// find says why the arm is missing here, and names its version.
	find func(ctx context.Context, s *site) (version string, err error)
	// start starts the arm. Nil is no proxy at all.
	start func(ctx context.Context, s *site, p place) (*process, addresses, error)
	// cases are those that it takes part in; nil: all.
	cases []string
}

// site is what the arms of a run share.
type site struct {
	folder     string
	pilotlight string
	tools      string
	origin     addresses
}

const (
	direct              = "direct"
	floorArm            = "floor"
	pilotlightArm       = "pilotlight"
	pilotlightTelemetry = "pilotlight+telemetry"
)

var allArms = []arm{
	{name: direct, what: "no proxy"},
	{name: floorArm, what: "httputil.ReverseProxy over http.Transport, 512 idle connections, buffer pool, full duplex", start: startFloor},
	{name: pilotlightArm, what: "pilotlight run, default configuration", find: findPilotlight, start: func(ctx context.Context, s *site, p place) (*process, addresses, error) {
		return startPilotlight(ctx, s, p, pilotlightConfig(p))
	}},
	{name: pilotlightTelemetry, what: "the same, traces sampled at 1 % and metrics exported", find: findTelemetry, cases: []string{"c32"}, start: func(ctx context.Context, s *site, p place) (*process, addresses, error) {
		return startPilotlight(ctx, s, p, pilotlightConfig(p, telemetryOn(p)))
	}},
	{name: "nginx", what: "2 workers", find: finder("nginx", "-v"), start: func(ctx context.Context, s *site, p place) (*process, addresses, error) {
		return startTool(ctx, s, p, "nginx.conf", nginxConfig(p), "nginx", "-p", p.folder, "-e", "stderr", "-c")
	}},
	{name: "haproxy", what: "2 threads", find: finder("haproxy", "-v"), start: func(ctx context.Context, s *site, p place) (*process, addresses, error) {
		return startTool(ctx, s, p, "haproxy.cfg", haproxyConfig(p), "haproxy", "-db", "-f")
	}},
	{name: "envoy", what: "2 workers", find: finder("envoy", "--version"), start: func(ctx context.Context, s *site, p place) (*process, addresses, error) {
		p.at.GRPC = p.at.Plain // one port serves both

		return startTool(ctx, s, p, "envoy.yaml", envoyConfig(p), "envoy", "--concurrency", "2", "--disable-hot-restart", "--log-level", "error", "-c")
	}},
}

// takesPart says whether the arm is measured in the case.
func (a arm) takesPart(name string) bool {
	return a.cases == nil || slices.Contains(a.cases, name)
}

// runner is an arm that has been started.
type runner struct {
	arm     arm
	process *process
	at      addresses
}

// up starts the arm in a folder of its own and waits until it passes requests.
func (a arm) up(ctx context.Context, s *site) (*runner, error) {
	if a.start == nil {
		return &runner{arm: a, at: s.origin}, nil
	}
	folder, err := os.MkdirTemp(s.folder, a.name+"-")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", a.name, err)
	}
	p := place{folder: folder, origin: s.origin, root: os.Geteuid() == 0}
	for _, port := range []*string{&p.at.Plain, &p.at.GRPC, &p.health, &p.admin} {
		// Somebody may take a free port before the proxy does; the bench can be run again.
		listener, err := listenAnywhere(ctx)
		if err != nil {
			return nil, err
		}
		*port = listener.Addr().String()
		_ = listener.Close()
	}
	running, at, err := a.start(ctx, s, p)
	if err != nil {
		return nil, err
	}
	r := &runner{arm: a, process: running, at: at}
	if err := r.until(ctx, "http://"+at.Plain+"/v2/health/live"); err != nil {
		r.down()

		return nil, err
	}

	return r, nil
}

func (r *runner) down() {
	if r.process != nil {
		r.process.stop()
	}
}

// pids are the arm's processes.
func (r *runner) pids() []int {
	if r.process == nil {
		return nil
	}

	return family(r.process.pid())
}

// until asks url until it answers with 200.
func (r *runner) until(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("30 s are over"))
	defer cancel()
	for {
		status, err := ask(ctx, url)
		if status == http.StatusOK {
			return nil
		}
		if gone := r.process.gone(); gone != nil {
			return gone
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: GET %s: expected status 200, got %d %w; %s", r.arm.name, url, status, errors.Join(err, context.Cause(ctx)), r.process.log)
		}
	}
}

func ask(ctx context.Context, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}

	return response.StatusCode, response.Body.Close()
}

func startFloor(ctx context.Context, s *site, _ place) (*process, addresses, error) {
	return startSelf(ctx, "floor", s.origin.Plain, s.origin.GRPC)
}

// startSelf starts a child of this program that says where it listens.
func startSelf(ctx context.Context, arguments ...string) (*process, addresses, error) {
	command, err := self(arguments...)
	if err != nil {
		return nil, addresses{}, err
	}
	p, err := launch(arguments[0], nil, nil, command...)
	if err != nil {
		return nil, addresses{}, err
	}
	var at addresses
	if err := p.read(ctx, &at); err != nil {
		p.stop()

		return nil, addresses{}, err
	}

	return p, at, nil
}

func startPilotlight(ctx context.Context, s *site, p place, text string) (*process, addresses, error) {
	path := filepath.Join(p.folder, "pilotlight.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, addresses{}, err
	}
	running, err := launch(pilotlightArm, nil, nil, s.pilotlight, "run", "-c", path)
	if err != nil {
		return nil, addresses{}, err
	}
	r := &runner{arm: arm{name: pilotlightArm}, process: running}
	if err := r.until(ctx, "http://"+p.health+"/readyz"); err != nil {
		r.down()

		return nil, addresses{}, err
	}

	return running, addresses{p.at.Plain, p.at.Plain}, nil
}

// findPilotlight has no version to tell: the bench measures this working tree.
func findPilotlight(_ context.Context, s *site) (string, error) {
	if _, err := os.Stat(s.pilotlight); err != nil {
		return "", fmt.Errorf("no program: %w (make build)", err)
	}

	return "", nil
}

func findTelemetry(ctx context.Context, s *site) (string, error) {
	if version, err := findPilotlight(ctx, s); err != nil {
		return version, err
	}
	p := nowhere(s.folder)
	_, err := effective(ctx, s, pilotlightConfig(p, telemetryOn(p)))

	return "", err
}

// finder finds another proxy, below the bench's own folder or on the system, and asks it for its version.
func finder(name, flag string) func(ctx context.Context, s *site) (string, error) {
	return func(ctx context.Context, s *site) (string, error) {
		path, env, err := s.tool(name)
		if err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, path, flag) //nolint:gosec // a proxy that the bench was made for
		cmd.Env = append(os.Environ(), env...)
		said, err := cmd.CombinedOutput()
		first, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		if err != nil {
			return "", fmt.Errorf("%s %s: %w: %s", name, flag, err, first)
		}

		return version(first), nil
	}
}

// version finds the version in what a program says of itself.
func version(line string) string {
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '/' }) {
		if len(word) > 2 && word[0] >= '0' && word[0] <= '9' && strings.Count(word, ".") >= 2 {
			return word
		}
	}

	return line
}

// tool returns the program of that name and what its environment needs.
func (s *site) tool(name string) (path string, env []string, err error) {
	tools, err := filepath.Abs(s.tools)
	if err != nil {
		return "", nil, err
	}
	libraries, _ := filepath.Glob(filepath.Join(tools, "debian", "usr", "lib", "*-linux-*"))
	more, _ := filepath.Glob(filepath.Join(tools, "debian", "lib", "*-linux-*"))
	for _, own := range []string{filepath.Join(tools, name), filepath.Join(tools, "debian", "usr", "sbin", name)} {
		if _, err := os.Stat(own); err == nil {
			return own, []string{"LD_LIBRARY_PATH=" + strings.Join(append(libraries, more...), ":")}, nil
		}
	}
	path, err = exec.LookPath(name)
	if err != nil {
		return "", nil, errors.New("no program (internal/bench/install.sh)")
	}

	return path, nil, nil
}

// startTool starts another proxy with its configuration as the last argument.
func startTool(_ context.Context, s *site, p place, file, text string, command ...string) (*process, addresses, error) {
	path := filepath.Join(p.folder, file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, addresses{}, err
	}
	program, env, err := s.tool(command[0])
	if err != nil {
		return nil, addresses{}, err
	}
	running, err := launch(command[0], env, nil, append(append([]string{program}, command[1:]...), path)...)

	return running, p.at, err
}

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
)

// answer is what became of a request for a digit.
type answer struct {
	status int
	header http.Header
	digits string
	err    error
}

// classify asks for the digits in some images.
func classify(url string, images ...int) answer {
	resp, err := plain.Post(url, "application/json", bytes.NewReader(digits.Body(images...)))
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return answer{status: resp.StatusCode, header: resp.Header, err: err}
	}
	if resp.StatusCode != http.StatusOK {
		return answer{status: resp.StatusCode, header: resp.Header, digits: body.String()}
	}
	found, err := digits.ReadAnswer(body.Bytes())

	return answer{status: resp.StatusCode, header: resp.Header, digits: found, err: err}
}

func writeModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "digits.onnx")
	if err := os.WriteFile(path, digits.Model(), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestAHeldRequestIsAnsweredOnceTheModelIsWarm(t *testing.T) {
	p, backend := freePorts(t), freeAddress(t)
	pilotlight := start(t, "run", "--backend", backend, "--data", p.data, "--health", p.health, "--admin", p.admin)
	until(t, "http://"+p.health+"/livez", http.StatusOK)
	if status, body := get(t, p.readyz()); status != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Errorf("/readyz before the backend: got %d %s", status, body)
	}
	if status, _ := get(t, "http://"+p.health+"/startupz"); status != http.StatusOK {
		t.Errorf("/startupz before the backend: got %d, want 200: Kubernetes starts the backend only then", status)
	}
	pod, model := p.watch(t, ""), p.watch(t, "digits")
	if first := []string{pod(), model()}; !slices.Equal(first, []string{"NOT_SERVING", "SERVICE_UNKNOWN"}) {
		t.Errorf("gRPC health before the backend: got %v", first)
	}
	url := "http://" + p.data + "/v2/models/digits/infer"
	held := make(chan answer)
	go func() { held <- classify(url, 3, 4) }()
	var status struct {
		Gate struct {
			Held int `json:"held"`
		} `json:"gate"`
	}
	for status.Gate.Held == 0 {
		_, body := get(t, "http://"+p.admin+"/statusz")
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatal(err)
		}
	}
	start(t, "onnx", "--model", writeModel(t), "--name", "digits", "--listen", backend, "--lazy")
	got := <-held
	want := digits.FormatAnswer([]int{digits.Images()[3].Answer, digits.Images()[4].Answer})
	if got.err != nil || got.status != http.StatusOK || got.digits != want {
		t.Errorf("the held request: got %+v, want digits %s", got, want)
	}
	if timing := strings.Join(got.header.Values("Server-Timing"), ", "); !regexp.MustCompile(`hold;dur=[1-9]\d*(\.\d+)?, backend;dur=`).MatchString(timing) {
		t.Errorf("Server-Timing: got %q", timing)
	}
	until(t, p.readyz(), http.StatusOK)
	if got := pod(); got != "SERVING" {
		t.Errorf("gRPC health of the warm pod: got %s", got)
	}
	for got := model(); got != "SERVING"; got = model() {
		if got != "NOT_SERVING" { // while it was known and not yet warm
			t.Fatalf("gRPC health of the warm model: got %s", got)
		}
	}
	if status, body := get(t, "http://"+p.admin+"/statusz"); status != http.StatusOK || !strings.Contains(body, `"converged"`) {
		t.Errorf("/statusz: got %d without a converged shape: %s", status, body)
	}

	pilotlight.signal(syscall.SIGTERM)
	until(t, p.readyz(), http.StatusServiceUnavailable)
	if last := []string{pod(), model()}; !slices.Equal(last, []string{"NOT_SERVING", "NOT_SERVING"}) {
		t.Errorf("gRPC health while draining: got %v", last)
	}
	if got := classify(url, 5); got.status != http.StatusOK {
		t.Errorf("a new request right after SIGTERM: got %+v, want 200: endpoint lists lag", got)
	}
	pilotlight.signal(syscall.SIGINT) // the second signal
	if code := pilotlight.exit(); code != exitFailure {
		t.Errorf("exit code after the second signal: got %d, want %d", code, exitFailure)
	}
	if end := pod(); end != "Unavailable" {
		t.Errorf("gRPC health of a pod that is gone: got %s", end)
	}
}

// incarnation is a backend that is cold until it has had some synthetic requests, and counts the users who met it before.
type incarnation struct {
	oip

	server           http.Server
	synthetic, early atomic.Int64
}

func (i *incarnation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/infer") {
		switch {
		case r.Header.Get("X-Pilotlight-Synthetic") != "":
			i.synthetic.Add(1)
		case i.synthetic.Load() < 5:
			i.early.Add(1)
		}
	}
	i.oip.ServeHTTP(w, r)
}

// TestABackendRestartedAtOnceMeetsNoUserBeforeItIsWarm restarts a backend within microseconds under load: connections are accepted again before anybody can have seen them refused.
func TestABackendRestartedAtOnceMeetsNoUserBeforeItIsWarm(t *testing.T) {
	p, address := freePorts(t), freeAddress(t)
	start(t, "run", "--backend", address, "--data", p.data, "--health", p.health, "--admin", p.admin)
	var backend *incarnation
	restart := func() {
		if backend != nil {
			_ = backend.server.Close()
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		backend = &incarnation{}
		backend.server.Handler = backend
		go func(b *incarnation) { _ = b.server.Serve(listener) }(backend)
	}
	restart()
	defer func() { _ = backend.server.Close() }()
	until(t, p.readyz(), http.StatusOK)
	stop, answered := make(chan struct{}), atomic.Int64{}
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if got := classify("http://"+p.data+"/v2/models/m/infer", 1); got.status == http.StatusOK {
						answered.Add(1)
					}
				}
			}
		})
	}
	for range 10 {
		before := answered.Load()
		restart()
		for answered.Load() < before+20 {
			pause(t.Context())
		}
		if early := backend.early.Load(); early > 0 {
			t.Errorf("%d users met a backend after only %d synthetic requests", early, backend.synthetic.Load())
		}
	}
	close(stop)
	users.Wait()
}

func TestEveryWaitIsNamed(t *testing.T) {
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	for _, test := range []struct{ name, model, backend, code, text string }{
		{"nobody listens", "digits", "", "backend_unreachable", "connection refused"},
		{"no such model", "digit", "digits", "model_not_loaded", "404"},
		{"a server that nobody knows", "digits", stranger.URL, "not_recognised", "status 404: it answers like no server type"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, backend := freePorts(t), freeAddress(t)
			if strings.HasPrefix(test.backend, "http:") {
				backend = test.backend
			}
			config := p.configure(t, "http: '"+backend+"'", "models: [{name: "+test.model+"}]\n")
			if test.backend == "digits" {
				start(t, "onnx", "--model", writeModel(t), "--name", test.backend, "--listen", backend)
			}
			pilotlight := start(t, "run", "-c", config)
			if line := pilotlight.line("waiting for the backend"); !strings.Contains(line, test.text) && test.backend == "" {
				t.Errorf("the log says %s, want it to say %q", line, test.text)
			}
			for {
				status, body := get(t, p.readyz()+"?verbose")
				if status == http.StatusOK {
					t.Fatalf("ready: %s", body)
				}
				if strings.Contains(body, test.code) {
					break
				}
			}
			if _, body := get(t, "http://"+p.admin+"/statusz"); !strings.Contains(body, test.text) {
				t.Errorf("/statusz does not say %q: %s", test.text, body)
			}
		})
	}
}

func TestAWorkerThatCannotLoadSaysWhy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.onnx")
	if err := os.WriteFile(path, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "onnx: {models: [{name: bad, path: '"+path+"'}]}", ""))
	for {
		if _, body := get(t, "http://"+p.admin+"/statusz"); strings.Contains(body, "bad.onnx") && strings.Contains(body, "backend_unreachable") {
			break
		}
	}
	missing := start(t, "run", "--onnx", path+".not")
	if code := missing.exit(); code != exitFailure || !strings.Contains(missing.printed(), "no such file") {
		t.Errorf("a missing model: exit code %d, %s", code, missing.printed())
	}
}

func TestTheEmbeddedBackendIsACompleteServer(t *testing.T) {
	p := freePorts(t)
	config := p.configure(t, "onnx: {models: [{name: digits, path: '"+writeModel(t)+"'}]}", "drain: {settle: 0s}\n")
	pilotlight := start(t, "run", "-c", config)
	until(t, p.readyz(), http.StatusOK)
	url := "http://" + p.data + "/v2/models/digits/infer"
	if got := classify(url, 7); got.status != http.StatusOK || got.digits != digits.FormatAnswer([]int{digits.Images()[7].Answer}) {
		t.Errorf("got %+v", got)
	}
	if got := classify("http://"+p.data+"/v2//repository/models/digits/unload/", 1); got.status != http.StatusForbidden {
		t.Errorf("a control path at the data port: got %+v, want 403", got)
	}

	// The worker dies: the next request is held until a new one is warm.
	line := attributes(t, pilotlight.line("the worker has started"))
	pid, isNumber := line["pid"].(float64)
	if !isNumber {
		t.Fatalf("no pid in %v", line)
	}
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pilotlight.line("the worker has ended")
	if got := classify(url, 7); got.status != http.StatusOK {
		t.Errorf("a request while the worker is gone: got %+v, want it held and answered", got)
	}
	until(t, p.readyz(), http.StatusOK)
	pilotlight.signal(syscall.SIGTERM)
	if code := pilotlight.exit(); code != 0 {
		t.Errorf("exit code after SIGTERM: got %d, want 0", code)
	}
}

func TestReloadKeepsWhatIsWarmAndNamesWhatNeedsARestart(t *testing.T) {
	p := freePorts(t)
	backend := "onnx: {models: [{name: digits, path: '" + writeModel(t) + "'}]}"
	config := p.configure(t, backend, "")
	pilotlight := start(t, "run", "-c", config)
	until(t, p.readyz(), http.StatusOK)
	rewrite := func(more string) {
		t.Helper()
		text, err := os.ReadFile(p.configure(t, backend, more))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		pilotlight.signal(syscall.SIGHUP)
	}
	rewrite("hold: {max_requests: 7}\ntelemetry: {server_timing: false}\nhealth: {interval: 1s}\n")
	if line := pilotlight.line("restart"); !strings.Contains(line, "health.interval") {
		t.Errorf("got %s, want it to name health.interval", line)
	}
	for {
		if _, body := get(t, "http://"+p.admin+"/config"); strings.Contains(body, `"max_requests":7`) {
			break
		}
	}
	got := classify("http://"+p.data+"/v2/models/digits/infer", 1)
	if got.status != http.StatusOK || got.header.Get("Server-Timing") != "" {
		t.Errorf("got %+v, want an answer without Server-Timing", got)
	}
	rewrite("holt: {}\n")
	if line := pilotlight.line("holt"); !strings.Contains(line, "hold") {
		t.Errorf("got %s, want it to name the nearest key", line)
	}
	if status, _ := get(t, p.readyz()); status != http.StatusOK {
		t.Errorf("/readyz after a bad reload: got %d, want 200", status)
	}
}

// TestAWorkerLeavesNothingBehind gives a worker a home and a temporary folder of its own: the telemetry of ONNX Runtime would leave files in both.
func TestAWorkerLeavesNothingBehind(t *testing.T) {
	home, temporary, address := t.TempDir(), t.TempDir(), freeAddress(t)
	t.Setenv("HOME", home)
	t.Setenv("TMPDIR", temporary)
	worker := start(t, "onnx", "--model", writeModel(t), "--name", "digits", "--listen", address)
	until(t, "http://"+address+"/v2/health/ready", http.StatusOK)
	if got := classify("http://"+address+"/v2/models/digits/infer", 1); got.status != http.StatusOK {
		t.Fatalf("got %+v", got)
	}
	worker.signal(syscall.SIGTERM)
	if code := worker.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, folder := range []string{home, temporary} {
		left, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range left {
			if !strings.HasPrefix(entry.Name(), t.Name()) { // our own folders
				t.Errorf("left behind: %s", filepath.Join(folder, entry.Name()))
			}
		}
	}
}

// TestADrainRefusesTheHeldBeforeItsLimit drains a pod whose backend never comes: nobody who is held is cut off without an answer.
func TestADrainRefusesTheHeldBeforeItsLimit(t *testing.T) {
	for _, test := range []struct {
		name, drain string
		signalled   bool
		begin       func(t *testing.T, p ports, pilotlight *program)
	}{
		{"at the limit", "{settle: 100ms, limit: 2s}", true, func(_ *testing.T, _ ports, pilotlight *program) {
			pilotlight.signal(syscall.SIGTERM)
		}},
		{"at the operator's word", "{settle: 100ms, limit: 20s, held: refuse}", false, func(t *testing.T, p ports, pilotlight *program) {
			t.Helper()
			if status, said := p.act(t, pilotlight, "/drain"); status != http.StatusAccepted {
				t.Fatalf("POST /drain: status %d %s", status, said)
			}
			until(t, p.readyz(), http.StatusServiceUnavailable)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			const held = 6
			p := freePorts(t)
			pilotlight := start(t, "run", "-c", p.configure(t, "http: '"+freeAddress(t)+"'", "drain: "+test.drain+"\n"))
			until(t, "http://"+p.health+"/livez", http.StatusOK)
			answers := make(chan answer, held)
			for range held {
				go func() { answers <- classify("http://"+p.data+"/v2/models/digits/infer", 1) }()
			}
			for {
				if _, body := get(t, "http://"+p.admin+"/statusz"); strings.Contains(body, `"held":6,`) {
					break
				}
			}
			test.begin(t, p, pilotlight)
			for range held {
				if got := <-answers; got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.digits, "draining") {
					t.Errorf("got %+v, want a retryable refusal", got)
				}
			}
			if !test.signalled {
				pilotlight.signal(syscall.SIGTERM)
			}
			if code := pilotlight.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestAMisspeltKeyIsNamedAndRefused(t *testing.T) {
	for _, test := range []struct{ name, text, line, near string }{
		{"first level", "version: 1\nbackend: {http: 'localhost:8000'}\nreadyness: {}\n", ":3:1:", "readiness"},
		{"second level", "version: 1\nbackend:\n  htpp: localhost:8000\n", ":3:3:", "http"},
		{"third level", "version: 1\nbackend:\n  http: localhost:8000\nhold:\n  max_wait:\n    stert: 3s\n", ":6:5:", "start"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pilotlight.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"validate", "run"} {
				refused := start(t, command, "-c", path)
				if code := refused.exit(); code != exitUsage {
					t.Errorf("%s: exit code %d, want %d", command, code, exitUsage)
				}
				if out := refused.printed(); !strings.Contains(out, path+test.line) || !strings.Contains(out, "did you mean "+test.near+"?") {
					t.Errorf("%s: got %s, want %s%s and %s", command, out, path, test.line, test.near)
				}
			}
		})
	}
}

func TestAPlanWithACycleIsRefused(t *testing.T) {
	p := freePorts(t)
	config := p.configure(t, "http: localhost:8000", "warmup: {steps: [{name: a, needs: [b], wait: {}}, {name: b, needs: [a], wait: {}}]}\n")
	refused := start(t, "validate", "-c", config)
	if code := refused.exit(); code != exitUsage || !strings.Contains(refused.printed(), "a needs b needs a") {
		t.Errorf("exit code %d: %s", code, refused.printed())
	}
}

func TestATakenPortIsAnError(t *testing.T) {
	p := freePorts(t)
	p.admin = p.health
	config := p.configure(t, "http: localhost:8000", "")
	if code := start(t, "run", "-c", config).exit(); code == 0 {
		t.Error("exit code 0")
	}
}

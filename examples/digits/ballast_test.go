package digits_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
)

// worker is a server in a process of its own.
type worker struct {
	t       *testing.T
	url     string
	pid     int
	started time.Time
	client  *http.Client
}

func startWorker(t *testing.T, model string) *worker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), serveEnv+"="+model, "GOCOVERDIR="+t.TempDir())
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the worker did not listen (does the library exist? deploy/onnxruntime.sh fetches it): %v\n%s", err, log.String())
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)

	return &worker{
		t: t, url: "http://" + strings.TrimSpace(line) + "/v2/models/digits/infer", pid: cmd.Process.Pid, started: started,
		client: &http.Client{Transport: transport, Timeout: time.Minute},
	}
}

// ask returns the answer to a batch of images and how long it took.
func (w *worker) ask(indexes ...int) (scores []float32, took time.Duration) {
	w.t.Helper()
	body := digits.Body(indexes...)
	start := time.Now()
	response, err := w.client.Post(w.url, "application/json", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	content, err := io.ReadAll(response.Body)
	took = time.Since(start)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK {
		w.t.Fatalf("status %d, %v: %s", response.StatusCode, err, content)
	}
	var answer struct {
		Outputs []struct {
			Data []float32 `json:"data"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(content, &answer); err != nil || len(answer.Outputs) != 1 || len(answer.Outputs[0].Data) != 10*len(indexes) {
		w.t.Fatalf("%v in %s", err, content)
	}

	return answer.Outputs[0].Data, took
}

// steady returns the median of warm calls.
func (w *worker) steady(indexes ...int) time.Duration {
	w.t.Helper()
	times := make([]time.Duration, 60)
	for i := range times {
		_, times[i] = w.ask(indexes...)
	}
	slices.Sort(times[20:])

	return times[20+20]
}

// resident returns the process's memory in MiB.
func (w *worker) resident() int {
	w.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				w.t.Fatal(err)
			}

			return kib >> 10
		}
	}
	w.t.Fatal("no VmRSS")

	return 0
}

func write(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.onnx")
	if size == 0 {
		if err := os.WriteFile(path, digits.Model(), 0o600); err != nil {
			t.Fatal(err)
		}

		return path
	}
	if err := digits.WriteBallast(path, size); err != nil {
		t.Fatal(err)
	}

	return path
}

// batches returns each batch of that size that the test asks for: all images, in order, wrapping around.
func batches(size int) [][]int {
	all := len(digits.Images())
	var list [][]int
	for start := 0; start < all; start += size {
		batch := make([]int, size)
		for i := range batch {
			batch[i] = (start + i) % all
		}
		list = append(list, batch)
	}

	return list
}

// The ballast is there (memory, load, first runs) and yet is not (answers, warm runs). The control is the same model without.
func TestBallastCostsWhatABigModelCosts(t *testing.T) {
	t.Parallel()
	const size = 300e6
	plain, heavy := startWorker(t, write(t, 0)), startWorker(t, write(t, size))
	type figures struct{ first, steady time.Duration }
	measure := func(w *worker) (rss int, perBatch map[int]figures) {
		before := w.resident()
		perBatch = map[int]figures{}
		for _, batch := range []int{1, 2, 4, 8} {
			_, first := w.ask(batches(batch)[0]...)
			perBatch[batch] = figures{first: first, steady: w.steady(batches(batch)[0]...)}
		}

		return w.resident() - before, perBatch
	}
	plainRSS, plainTimes := measure(plain)
	heavyRSS, heavyTimes := measure(heavy)
	t.Logf("without ballast: %d MiB more after all batch sizes; with: %d MiB", plainRSS, heavyRSS)
	for _, batch := range []int{1, 2, 4, 8} {
		p, h := plainTimes[batch], heavyTimes[batch]
		t.Logf("batch %d: without first %v steady %v; with first %v (%.0f times) steady %v",
			batch, p.first, p.steady, h.first, float64(h.first)/float64(h.steady), h.steady)
		if h.steady > 20*time.Millisecond {
			t.Errorf("batch %d: a warm run takes %v: the ballast is not cheap", batch, h.steady)
		}
		if batch > 1 && h.first < h.steady*3/2 {
			t.Errorf("batch %d: first %v, steady %v: the ballast is not cold", batch, h.first, h.steady)
		}
	}
	if first := heavyTimes[1]; first.first < 5*first.steady {
		t.Errorf("first request %v, steady %v: expected loading to cost at least 5 times as much", first.first, first.steady)
	}
	if heavyTimes[1].first < 2*plainTimes[1].first {
		t.Errorf("first request %v with ballast, %v without: loading it costs nothing", heavyTimes[1].first, plainTimes[1].first)
	}
	if heavyRSS < plainRSS+150 {
		t.Errorf("%d MiB with ballast, %d MiB without: ONNX Runtime dropped it", heavyRSS, plainRSS)
	}
}

func TestBallastChangesNoAnswer(t *testing.T) {
	t.Parallel()
	plain, heavy := startWorker(t, write(t, 0)), startWorker(t, write(t, digits.MinBallast))
	for _, size := range []int{1, 2, 3, 4, 5, 8} {
		for _, batch := range batches(size) {
			want, _ := plain.ask(batch...)
			got, _ := heavy.ask(batch...)
			if !slices.Equal(got, want) {
				t.Fatalf("batch %v: got %v with ballast, %v without", batch, got, want)
			}
		}
	}
}

func TestBallastOfAnotherSizeIsRefused(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{-1, 0, digits.MinBallast - 1, digits.MaxBallast + 1} {
		path := filepath.Join(t.TempDir(), "model.onnx")
		if err := digits.WriteBallast(path, size); err == nil {
			t.Errorf("ballast of %d bytes was written", size)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("ballast of %d bytes left a file", size)
		}
	}
}

func TestBallastIsOfTheSizeAskedFor(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	path := write(t, size)
	info, err := os.Stat(path + ".data")
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Size(); got < size*95/100 || got > size {
		t.Errorf("the weights take %d bytes, expected about %d", got, size)
	}
}

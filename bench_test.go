package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
)

// oip is the smallest server that speaks the Open Inference Protocol; the bench wants to measure us, not it.
type oip struct {
	first atomic.Int64 // when the first inference came, in Unix nanoseconds
}

func (o *oip) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	answer := `{}`
	switch r.URL.Path {
	case "/v2":
		answer = `{"name":"bench","version":"1","extensions":[]}`
	case "/v2/repository/index":
		answer = `[{"name":"m","version":"1","state":"READY"}]`
	case "/v2/models/m":
		answer = `{"name":"m","versions":["1"],"platform":"x","inputs":[{"name":"x","datatype":"FP32","shape":[1]}],"outputs":[{"name":"y","datatype":"FP32","shape":[1]}]}`
	case "/v2/models/m/infer":
		o.first.CompareAndSwap(0, time.Now().UnixNano())
		answer = `{"model_name":"m","outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[1]}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// cpu returns the processor time that a process has used.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}

	return time.Duration(ticks) * (time.Second / 100)
}

// BenchmarkListenToFirstSynthetic measures how soon a waiting Pilotlight sends its first inference once the backend listens, and what the waiting costs.
// It fails above 10 ms and above 1 % of a core.
func BenchmarkListenToFirstSynthetic(b *testing.B) {
	const runs, waiting = 20, 10 * time.Second
	var delays, lateness []time.Duration
	for run := range runs {
		p := freePorts(b)
		backend := freeAddress(b)
		pilotlight := start(b, "run", "--backend", backend, "--data", p.data, "--health", p.health, "--admin", p.admin)
		until(b, "http://"+p.health+"/livez", http.StatusOK)
		if run == 0 {
			before := cpu(b, pilotlight.cmd.Process.Pid)
			coldstart.Wait(b.Context(), waiting)
			share := float64(cpu(b, pilotlight.cmd.Process.Pid)-before) / float64(waiting)
			b.ReportMetric(100*share, "%core-waiting")
			if share > 0.01 {
				b.Errorf("waiting costs %.2f %% of a core, expected at most 1", 100*share)
			}
		}
		server := &oip{}
		listener, err := net.Listen("tcp", backend)
		if err != nil {
			b.Fatal(err)
		}
		listened := time.Now()
		served := &http.Server{Handler: server}
		go func() { _ = served.Serve(listener) }()
		var late time.Duration
		for before := listened; server.first.Load() == 0 && time.Since(listened) < 5*time.Second; before = time.Now() {
			pause(b.Context())
			late = max(late, time.Since(before)-time.Millisecond)
		}
		lateness = append(lateness, late)
		delays = append(delays, time.Unix(0, server.first.Load()).Sub(listened))
		_ = pilotlight.cmd.Process.Kill()
		_ = served.Close()
	}
	median, worst := coldstart.Percentile(delays, 50), coldstart.Percentile(delays, 100)
	b.ReportMetric(coldstart.MS(median), "ms-median")
	b.ReportMetric(coldstart.MS(worst), "ms-worst")
	if worst > 10*time.Millisecond {
		b.Errorf("from listen to the first synthetic request: worst of %d runs %s, median %s, expected at most 10 ms; a millisecond of the bench's own was late by up to %s meanwhile",
			runs, worst, median, coldstart.Percentile(lateness, 100))
	}
}

// BenchmarkConvergedToReady measures how soon a client that polls /readyz each millisecond sees 200 once the plan has ended.
// It fails when the 99th percentile of 100 runs is above 3 ms in the median of three hundreds: that of one is a single run, which the machine may have held up.
func BenchmarkConvergedToReady(b *testing.B) {
	const runs, hundreds = 100, 3
	p := freePorts(b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := &http.Server{Handler: &oip{}}
	go func() { _ = served.Serve(listener) }()
	b.Cleanup(func() { _ = served.Close() })
	pilotlight := start(b, "run", "--backend", listener.Addr().String(), "--data", p.data, "--health", p.health, "--admin", p.admin)
	until(b, p.readyz(), http.StatusOK)
	token, err := os.ReadFile(filepath.Join(pilotlight.runtime, "pilotlight", "admin-token"))
	if err != nil {
		b.Fatal(err)
	}
	var delays []time.Duration
	for range runs * hundreds {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+p.admin+"/warm", http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		resp, err := plain.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			b.Fatalf("POST /warm: status %d", resp.StatusCode)
		}
		if !coldstart.Poll(b.Context(), p.readyz(), time.Millisecond) {
			b.Fatal("not ready again")
		}
		seen := time.Now()
		var status struct {
			Warmup struct {
				Ended time.Time `json:"ended"`
			} `json:"warmup"`
		}
		resp, err = plain.Get("http://" + p.admin + "/statusz")
		if err != nil {
			b.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&status)
		_ = resp.Body.Close()
		if err != nil || status.Warmup.Ended.IsZero() {
			b.Fatalf("/statusz: %v, ended %s", err, status.Warmup.Ended)
		}
		delays = append(delays, seen.Sub(status.Warmup.Ended))
	}
	var tails []time.Duration
	for some := range slices.Chunk(delays, runs) {
		tails = append(tails, coldstart.Percentile(slices.Clone(some), 99))
	}
	p99 := coldstart.Percentile(tails, 50)
	b.ReportMetric(coldstart.MS(coldstart.Percentile(delays, 50)), "ms-median")
	b.ReportMetric(coldstart.MS(p99), "ms-p99")
	if p99 > 3*time.Millisecond {
		b.Errorf("from converged to 200: p99 of %d runs %s in the median of %d, expected at most 3 ms", runs, p99, hundreds)
	}
}

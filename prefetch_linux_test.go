package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// prefetching runs "warm --only prefetch" in a process of its own, in a memory cgroup if there is one, with a configuration whose backend does not exist.
func prefetching(t *testing.T, group, paths string) (out string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pilotlight.yaml")
	config := "version: 1\nbackend: {http: 'localhost:1'}\nwarmup:\n  steps:\n  - {name: weights, prefetch: {paths: ['" + paths + "']}}\n  - {name: up, wait: {}, needs: [weights]}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "pilotlight")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	command := exec.CommandContext(t.Context(), program, "warm", "--only", "prefetch", "-c", file)
	if group != "" {
		// The shell enters the group and becomes the program.
		command = exec.CommandContext(t.Context(), "sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group, program, "warm", "--only", "prefetch", "-c", file)
	}
	var written bytes.Buffer
	command.Stdout, command.Stderr = &written, &written
	err = command.Run()

	return written.String(), err
}

// weightsOf writes a file that is on the disk and not in the page cache.
func weightsOf(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.bin")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	block := bytes.Repeat([]byte("weights."), 1<<17)
	for written := int64(0); written < size; written += int64(len(block)) {
		if _, err := file.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestPrefetchAsAnInitContainer(t *testing.T) {
	path := weightsOf(t, 8<<20)
	out, err := prefetching(t, "", filepath.Dir(path)+"/**")
	if err != nil || !strings.Contains(out, "w.bin (plain): resident 100.0 %") || !strings.Contains(out, "warm: 1 files of 8MiB") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := prefetching(t, "", "/nowhere/**"); err == nil || !strings.Contains(out, "no file matches /nowhere/**") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPrefetchInASmallMemoryGroup has a memory cgroup of 256 MiB and a file of four times as much: the prefetch stops by itself, and says why.
func TestPrefetchInASmallMemoryGroup(t *testing.T) {
	const limit = 256 << 20
	group := smallGroup(t, limit)
	path := weightsOf(t, 4*limit)
	out, err := prefetching(t, group, path)
	t.Log(out)
	if err != nil {
		t.Fatalf("it does not live: %v", err)
	}
	if !strings.Contains(out, "stopped: after ") || !strings.Contains(out, "the memory cgroup /") || !strings.Contains(out, "more would push out what others need") {
		t.Error("it does not say why it stopped")
	}
	for _, counter := range []string{"memory.failcnt", "memory.events"} {
		content, err := os.ReadFile(filepath.Join(group, counter))
		if err == nil {
			t.Logf("%s: %s", counter, content)
		}
		if counter == "memory.failcnt" && err == nil && strings.TrimSpace(string(content)) != "0" || strings.Contains(string(content), "\nmax ") && !strings.Contains(string(content), "\nmax 0\n") {
			t.Errorf("it reached its limit: %s", content)
		}
	}
	// The control: a program that does not look reaches the limit, so there was one.
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", `echo $$ > "$0"/cgroup.procs && exec cat "$1" > /dev/null`, group, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if content, err := os.ReadFile(filepath.Join(group, "memory.failcnt")); err == nil && strings.TrimSpace(string(content)) == "0" {
		t.Error("a program that reads all of the file does not reach the limit either: the group proves nothing")
	}
}

// smallGroup makes a memory cgroup within that of this process, of version 1 or 2.
func smallGroup(t *testing.T, limit int) string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skipf("no cgroups: %v", err)
	}
	mount, own, file := "/sys/fs/cgroup", "", "memory.max"
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && fields[1] == "memory" {
			mount, own, file = "/sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"

			break
		}
		if len(fields) == 3 && fields[1] == "" {
			own = fields[2]
		}
	}
	group := filepath.Join(mount, own, "pilotlight-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no memory cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Errorf("the memory cgroup stays: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		t.Skipf("the memory cgroup takes no limit: %v", err)
	}

	return group
}

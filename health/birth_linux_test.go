package health

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestListenerStartIsThatOfTheProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	identity := ListenerIdentity("tcp", listener.Addr().String())()
	at, known := ListenerStart(identity)
	own, read := processStart("/proc/self/stat")
	if identity == "" || !known || !read || at.Sub(own).Abs() > time.Second {
		t.Errorf("identity %q: began at %s, %t; this process began at %s", identity, at, known, own)
	}
	if at, known := ListenerStart("1"); known {
		t.Errorf("a socket of nobody began at %s", at)
	}
}

func TestProcessStartIsOnTheClock(t *testing.T) {
	before := time.Now()
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	at, known := processStart(filepath.Join("/proc", strconv.Itoa(child.Process.Pid), "stat"))
	_ = child.Process.Kill()
	_ = child.Wait()
	if !known || at.Before(before.Add(-50*time.Millisecond)) || at.After(after.Add(50*time.Millisecond)) {
		t.Errorf("began at %s, %t, expected between %s and %s", at, known, before, after)
	}
}

func TestTheEarliestOfSeveralProcessesCounts(t *testing.T) {
	proc := t.TempDir()
	// A name with a bracket and spaces, as a process may give itself.
	process := func(pid, socket, ticks string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(proc, pid, "fd"), 0o700); err != nil {
			t.Fatal(err)
		}
		stat := pid + " (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " + ticks + " 0 0\n"
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("socket:["+socket+"]", filepath.Join(proc, pid, "fd", "3")); err != nil {
			t.Fatal(err)
		}
	}
	process("10", "7", "300")
	process("11", "7", "200")
	process("12", "8", "100")
	process("self", "7", "0")
	if at, known := listenerStart(proc, "7,9"); !known {
		t.Error("not found")
	} else if later, _ := listenerStart(proc, "8"); at.Sub(later) < 900*time.Millisecond || at.Sub(later) > 1100*time.Millisecond {
		t.Errorf("7 began %s after 8, expected 1 s", at.Sub(later))
	}
	for _, unknown := range []string{"9", "", "file:1:2:3"} {
		if at, known := listenerStart(proc, unknown); known {
			t.Errorf("%q began at %s", unknown, at)
		}
	}
}

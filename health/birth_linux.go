package health

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tick is the unit of the times in /proc/[pid]/stat on every machine that Go runs on.
	tick = time.Second / 100
	// afterName is where the start time stands in /proc/[pid]/stat, counted from the field behind the process's name.
	afterName = 19
	// processesRead and filesRead bound what is looked through to find who holds a socket.
	processesRead = 4096
	filesRead     = 65536
)

// ListenerStart returns when the process began that holds the sockets of an identity, the earliest of several: a worker that was replaced is no restart of its server.
// It is not known where that process cannot be seen: containers of a pod see each other's only with shareProcessNamespace, and as the same user or with CAP_SYS_PTRACE.
func ListenerStart(identity string) (time.Time, bool) { return listenerStart("/proc", identity) }

func listenerStart(proc, identity string) (earliest time.Time, ok bool) {
	wanted := map[string]bool{}
	for inode := range strings.SplitSeq(identity, ",") {
		wanted["socket:["+inode+"]"] = true
	}
	processes, err := os.ReadDir(proc)
	if err != nil {
		return time.Time{}, false
	}
	files := filesRead
	for _, process := range processes[:min(len(processes), processesRead)] {
		if _, err := strconv.Atoi(process.Name()); err != nil || files <= 0 {
			continue
		}
		folder := filepath.Join(proc, process.Name())
		if !hasOpen(filepath.Join(folder, "fd"), wanted, &files) {
			continue
		}
		if at, known := processStart(filepath.Join(folder, "stat")); known && (!ok || at.Before(earliest)) {
			earliest, ok = at, true
		}
	}

	return earliest, ok
}

// hasOpen tells whether one of the files that a process has open is wanted.
func hasOpen(folder string, wanted map[string]bool, files *int) bool {
	open, err := os.ReadDir(folder)
	if err != nil {
		return false // somebody else's process, or one that has ended
	}
	for _, file := range open {
		*files--
		if *files < 0 {
			return false
		}
		if target, err := os.Readlink(filepath.Join(folder, file.Name())); err == nil && wanted[target] {
			return true
		}
	}

	return false
}

// processStart reads when a process began, which the kernel counts from the machine's boot.
func processStart(stat string) (time.Time, bool) {
	text, err := os.ReadFile(stat) //nolint:gosec // a file of /proc, or of a test
	if err != nil {
		return time.Time{}, false
	}
	// The name may hold spaces and brackets, so that the fields are counted from its end.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= afterName {
		return time.Time{}, false
	}
	ticks, err := strconv.ParseInt(fields[afterName], 10, 64)
	var boot unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return time.Time{}, false
	}
	age := time.Duration(boot.Nano()) - time.Duration(ticks)*tick

	return time.Now().Add(-max(age, 0)), true
}

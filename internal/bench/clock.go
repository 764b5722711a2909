package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the time since the machine booted. It is the same clock in every process, and nobody sets it.
func monotonic() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // it cannot fail on Linux
	}

	return time.Duration(ts.Nano())
}

// processorTime is what the processes have used of the processor so far, all their threads, those that have ended too. It is the sum of utime and stime of
// /proc/PID/stat, read off the process's own clock because there it comes in nanoseconds instead of hundredths of a second.
func processorTime(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		var ts unix.Timespec
		// The kernel's name for the clock of a process: the inverted id above three bits, of which 2 says "as the scheduler counted".
		if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil { //nolint:gosec // process ids have 22 bits
			return 0, fmt.Errorf("read processor time of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}

	return sum, nil
}

// resident is the memory that the processes have in RAM, in bytes. Pages that they share count once for each.
func resident(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return 0, fmt.Errorf("read memory of process %d: expected at least 2 figures, got %q", pid, text)
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
		sum += pages * int64(os.Getpagesize())
	}

	return sum, nil
}

// family is the process and its children.
func family(pid int) []int {
	pids := []int{pid}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for child := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(child); err == nil {
				pids = append(pids, id)
			}
		}
	}

	return pids
}

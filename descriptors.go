package main

import (
	"math"
	"syscall"
)

// keptDescriptors are left to what is no connection of a user: probes, the log, synthetic requests, the worker.
const keptDescriptors = 256

// connectionRoom is how many connections of clients fit into what descriptors the process may have, if each needs one more to the backend. Beyond it the
// health port, which shares them, could not accept a probe.
func connectionRoom() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt32
	}

	return int(max(1, (int64(min(limit.Cur, math.MaxInt32))-keptDescriptors)/2))
}

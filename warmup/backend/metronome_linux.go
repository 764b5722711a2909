package backend

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// metronome waits without the runtime's timers. Each of those wakes the runtime's monitor thread beside the one that waits, and ordinary system
// calls do so again: three quarters of what a short wait costs. A timer of the kernel's, read by raw system calls through the runtime's
// poller, wakes one thread.
type metronome struct {
	file *os.File
	conn syscall.RawConn
	pace time.Duration // of the beats; 0 before the first one
}

// newMetronome returns nil where the kernel has no timer for us.
func newMetronome() *metronome {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "timer")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()

		return nil
	}

	return &metronome{file: file, conn: conn}
}

func (m *metronome) close() { _ = m.file.Close() }

// wait waits for the next beat at that pace, or until ctx ends. Beats come whether or not somebody waits, so that what is done between them
// takes nothing off the pace.
func (m *metronome) wait(ctx context.Context, pace time.Duration) error {
	if pace != m.pace && !m.set(max(pace, 1)) {
		return wait(ctx, pace)
	}
	stop := context.AfterFunc(ctx, func() { _ = m.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var beats [8]byte
	_ = m.conn.Read(func(fd uintptr) bool { // its only error is the deadline, which ctx has set
		n, _, _ := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&beats[0])), uintptr(len(beats))) //nolint:gosec // an argument of a system call

		return int(n) == len(beats)
	})

	return context.Cause(ctx)
}

// set changes the pace.
func (m *metronome) set(pace time.Duration) (done bool) {
	every := unix.NsecToTimespec(int64(pace))
	spec := unix.ItimerSpec{Interval: every, Value: every}
	_ = m.conn.Control(func(fd uintptr) { done = unix.TimerfdSettime(int(fd), 0, &spec, nil) == nil })
	if done {
		m.pace = pace
	}

	return done
}

// processorTime is what the process has used of its processors.
func processorTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

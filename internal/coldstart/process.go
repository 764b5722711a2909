package coldstart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a server that the bench starts fresh for each run. It dies with the bench.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	// Started is when the process was started.
	Started time.Time
}

// Start runs command with its output going to log.
func Start(ctx context.Context, log io.Writer, command ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the bench starts what its caller names
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = os.Environ()
	// A bench that is killed must not leave servers behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	process := &Process{cmd: cmd, done: make(chan struct{}), Started: time.Now()}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	go func() {
		process.err = cmd.Wait()
		close(process.done)
	}()

	return process, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once, as the kernel would, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end, and kills it when it has not done so within patience.
func (p *Process) Stop(patience time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", p.PID(), err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		p.Kill()

		return fmt.Errorf("stop process %d: still running after %s", p.PID(), patience)
	}
}

// FreeAddress returns a loopback address that nobody listens at. Somebody may take it before it is used; a bench can be run again.
func FreeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	address := listener.Addr().String()

	return address, listener.Close()
}

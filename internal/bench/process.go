package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a participant. It dies with the bench, by the kernel's hand where its own input does not tell it.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	out  *os.File
	log  *tail
	done chan struct{}
	err  error
}

// launch starts command. Its standard output is for the bench, what it complains of is kept for an error.
func launch(name string, env []string, input io.Reader, command ...string) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the bench starts what its caller names, and ends it by kill
	p := &process{name: name, cmd: cmd, log: &tail{}, done: make(chan struct{})}
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = p.log
	// SIGTERM, because the master of nginx must live to end its workers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	cmd.WaitDelay = time.Second
	out, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd.Stdout, p.out = write, out
	if input != nil {
		cmd.Stdin = input
	} else if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = out.Close()

		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()

	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// read reads the line of JSON that the process prints.
func (p *process) read(ctx context.Context, into any) error {
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(p.out).ReadBytes('\n')
		lines <- line{text, err}
	}()
	select {
	case got := <-lines:
		if got.err != nil {
			return fmt.Errorf("read what %s says: %w; %s", p.name, got.err, p.log)
		}

		return json.Unmarshal(got.text, into)
	case <-ctx.Done():
		return fmt.Errorf("read what %s says: %w; %s", p.name, context.Cause(ctx), p.log)
	}
}

// gone is an error once the process has ended.
func (p *process) gone() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended: %w; %s", p.name, errors.Join(p.err, errEnded), p.log)
	default:
		return nil
	}
}

var errEnded = errors.New("the bench had not asked for it")

// stop ends the process and its children and waits until it is gone.
func (p *process) stop() {
	if p.in != nil {
		_ = p.in.Close()
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(300 * time.Millisecond): // a drain is not what is measured here
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL) // the group that it was made the head of
		<-p.done
	}
	_ = p.out.Close()
}

// tail keeps the end of what a process complains of.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const limit = 2 << 10
	t.kept = append(t.kept, b...)
	if len(t.kept) > limit {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-limit:]...)
	}

	return len(b), nil
}

// String is what was kept, in words for an error.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if said := strings.TrimSpace(string(bytes.ToValidUTF8(t.kept, nil))); said != "" {
		return "it said: " + said
	}

	return "it said nothing"
}

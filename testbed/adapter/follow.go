package adapter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/forsd/forsd/testbed/ibsim"
)

// Follower keeps a fabric's tables and links as those of a simulation are.
type Follower struct {
	fabric *Fabric
	cmd    *exec.Cmd
	stop   io.Closer
	ended  chan struct{}
	said   *os.File
}

// BuildFollower builds the program that Follow runs into the directory of the others.
// It takes libibumad-dev, and must run within the module.
func BuildFollower(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "umad", "-o", dir, "github.com/forsd/forsd/testbed/adapter/follow")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the follower: %w: %s", err, out)
	}
	return nil
}

// Follow has the fabric take tables and the states of links from the switches of a
// simulation, read by management datagrams from a host of it, as long as it runs. The
// subnet file is the one that the fabric of Options was read from. It returns when all
// has been read once.
func (a *Fabric) Follow(ctx context.Context, sim *ibsim.Sim, host, subnet string) (*Follower, error) {
	env, err := sim.Env(host)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(a.dir, "follow-")
	if err != nil {
		return nil, err
	}
	f := &Follower{fabric: a, ended: make(chan struct{})}
	if f.said, err = os.Create(filepath.Join(dir, "err")); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(subnet) // it may change before the program reads it
	if err != nil {
		return nil, err
	}
	copied := filepath.Join(dir, "subnet.lst")
	if err := os.WriteFile(copied, data, 0o644); err != nil {
		return nil, err
	}
	f.cmd = exec.Command(sim.Prefix()[0], append(sim.Prefix()[1:], filepath.Join(a.options.Programs, "follow"), copied)...)
	f.cmd.Dir, f.cmd.Stderr, f.cmd.Env = dir, f.said, append(os.Environ(), env...)
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, e1 := f.cmd.StdinPipe()
	out, e2 := f.cmd.StdoutPipe()
	if err := errors.Join(e1, e2, f.cmd.Start()); err != nil {
		return nil, err
	}
	f.stop = in
	go f.carry(out)
	if err := f.Caught(ctx); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// carry takes what the program prints to the data fabric, line by line.
func (f *Follower) carry(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		_ = f.fabric.tell(func() error { _, err := f.fabric.in.Write(line); return err })
	}
	close(f.ended)
}

// Caught waits until the switches have been read once more from beginning to end.
func (f *Follower) Caught(ctx context.Context) error {
	for range 2 {
		f.fabric.mu.Lock()
		more := f.fabric.more
		f.fabric.mu.Unlock()
		select {
		case <-more:
		case <-f.ended:
			said, _ := os.ReadFile(f.said.Name())
			return fmt.Errorf("follow the simulation: the program has ended: %s", said)
		case <-ctx.Done():
			return fmt.Errorf("follow the simulation: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Stop ends the program after the round under way.
func (f *Follower) Stop() error {
	_ = f.stop.Close()
	<-f.ended
	return errors.Join(f.cmd.Wait(), f.said.Close())
}

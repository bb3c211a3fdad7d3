package e2e

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Round is one reading of all the switches' tables by a Poller.
type Round struct {
	Start, End time.Time
	Changes    []EntryChange   // against the rounds before, by switch and LID
	Missing    []topology.GUID // switches that did not answer
}

// EntryChange is an entry that has changed.
type EntryChange struct {
	Switch  topology.GUID
	LID     topology.LID
	Was, Is uint8
}

// Poller is a process that reads all the switches' tables again and again.
type Poller struct {
	First *lft.Tables // the first reading

	cmd     *exec.Cmd
	stop    io.Closer
	answers *gob.Decoder
}

// Poll attaches a poller, as BuildPoller built it, at a host, and returns when it
// has read all tables once.
func (s *Site) Poll(program, host string) (*Poller, error) {
	env, err := s.Sim.Env(host)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, "poll-")
	if err != nil {
		return nil, err
	}
	p := &Poller{cmd: exec.Command(s.Sim.Prefix()[0], append(s.Sim.Prefix()[1:], program, s.SubnetFile())...)}
	log, err := os.Create(filepath.Join(dir, "poll.err"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Stderr, p.cmd.Env = dir, log, append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, e1 := p.cmd.StdinPipe()
	out, e2 := p.cmd.StdoutPipe()
	if err := errors.Join(e1, e2); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.stop, p.answers = in, gob.NewDecoder(out)
	if err := p.answers.Decode(&p.First); err != nil {
		_ = in.Close()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("poll the switches: %w: %s", errors.Join(err, p.cmd.Wait()), said)
	}
	return p, nil
}

// Stop ends the polling after the round under way, and returns the rounds after
// the first.
func (p *Poller) Stop() (rounds []Round, err error) {
	_ = p.stop.Close()
	err = p.answers.Decode(&rounds)
	if err = errors.Join(err, p.cmd.Wait()); err != nil {
		return nil, fmt.Errorf("poll the switches: %w", err)
	}
	return rounds, nil
}

// BuildPoller builds the program that Poll runs into a directory and returns its
// path. It takes libibumad-dev, and must run within the module.
func BuildPoller(ctx context.Context, dir string) (string, error) {
	if _, err := os.Stat(umadHeader); err != nil {
		return "", fmt.Errorf("build the poller: install libibumad-dev: %w", err)
	}
	return build(ctx, dir, "github.com/forsd/forsd/testbed/e2e/poll")
}

// BuildPlugin builds libforsosm.so into a directory and returns its path. It takes
// libopensm-dev, and must run within the module.
func BuildPlugin(ctx context.Context, dir string) (string, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("build libforsosm: find the module: %w", err)
	}
	source := filepath.Join(string(module[:len(module)-1]), "opensm", "plugin")
	if out, err := exec.CommandContext(ctx, "make", "-s", "-C", source, "out="+dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build libforsosm: %w: %s", err, out)
	}
	return filepath.Join(dir, "libforsosm.so"), nil
}

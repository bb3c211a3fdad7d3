package ibsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// packages are the Debian packages that the harness needs, each with programs
// that it must bring.
var packages = []struct {
	name     string
	programs []string
}{
	{"ibsim-utils", []string{"ibsim", "ibsim-run"}},
	{"opensm", []string{"opensm"}},
	{"infiniband-diags", []string{"ibnetdiscover", "dump_fts", "saquery"}},
}

// Available returns an error that names the Debian packages missing on this machine,
// or nil.
func Available() error {
	var missing []string
	for _, p := range packages {
		for _, program := range p.programs {
			if _, err := lookPath(program); err != nil {
				missing = append(missing, p.name)
				break
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	return fmt.Errorf("the fabric simulation needs %s: run apt-get install %s", list, list)
}

// lookPath finds a program in PATH or where Debian keeps administrators'
// programs, which an ordinary user's PATH lacks.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || strings.Contains(name, "/") {
		return path, err
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, e := exec.LookPath(filepath.Join(dir, name)); e == nil {
			return path, nil
		}
	}
	return "", err
}

// runLimit ends a diagnostic tool whose caller has set no deadline: a client
// that loses ibsim would try for ever.
const runLimit = time.Minute

// Run runs a program as a client of the simulation, attached at host, and
// returns its standard output. It works in a directory of its own, which is
// removed afterwards, and is killed with everything it started when ctx ends, or
// after a minute if ctx has no deadline. The output is returned with an error,
// too.
func (s *Sim) Run(ctx context.Context, host, name string, args ...string) ([]byte, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, runLimit)
		defer cancel()
	}
	path, err := lookPath(name)
	if err != nil {
		return nil, fmt.Errorf("run %s in the simulation: %w", name, err)
	}
	dir, err := os.MkdirTemp(s.dir, "run-")
	if err != nil {
		return nil, fmt.Errorf("run %s in the simulation: %w", name, err)
	}
	defer os.RemoveAll(dir)
	var stdout, stderr bytes.Buffer
	cmd, err := s.clientCommand(host, path, args...)
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	p, err := s.start(cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		s.detach(p.pid())
		return stdout.Bytes(), fmt.Errorf("run %s in the simulation: %w", name, errors.Join(context.Cause(ctx), complaint(stderr.Bytes())))
	}
	if p.err != nil {
		return stdout.Bytes(), fmt.Errorf("run %s in the simulation: %w", name, errors.Join(p.err, complaint(stderr.Bytes())))
	}
	return stdout.Bytes(), nil
}

// clientCommand prepares a program to run as a client attached at host.
func (s *Sim) clientCommand(host, path string, args ...string) (*exec.Cmd, error) {
	env, err := s.Env(host)
	if err != nil {
		return nil, err
	}
	prefix := s.Prefix()
	cmd := exec.Command(prefix[0], append(append(prefix[1:], path), args...)...)
	cmd.Env = append(os.Environ(), env...)
	return cmd, nil
}

// complaint is the end of a program's standard error as an error; nil if it is
// empty.
func complaint(stderr []byte) error {
	const tail = 1000
	text := strings.TrimSpace(string(stderr[max(0, len(stderr)-tail):]))
	if text == "" {
		return nil
	}
	return errors.New(text)
}

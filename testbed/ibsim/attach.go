package ibsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Client is a program that reads the simulation until its standard input ends.
type Client struct {
	Out io.Reader // its output

	cmd *exec.Cmd
	in  io.Closer
}

// Attach starts such a program as a client at host, in a directory of its own.
func (s *Sim) Attach(host, program string, args ...string) (*Client, error) {
	cmd, err := s.clientCommand(host, program, args...)
	if err != nil {
		return nil, err
	}
	if cmd.Dir, err = os.MkdirTemp(s.dir, "client-"); err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(cmd.Dir, "err"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, e1 := cmd.StdinPipe()
	out, e2 := cmd.StdoutPipe()
	if err := errors.Join(e1, e2); err != nil {
		return nil, err
	}
	return &Client{Out: out, cmd: cmd, in: in}, cmd.Start()
}

// End asks the program to end; its remaining output must still be read.
func (c *Client) End() { _ = c.in.Close() }

// Wait waits for the end of the program, once all its output has been read. The error
// holds its complaints.
func (c *Client) Wait() error {
	err := c.cmd.Wait()
	said, _ := os.ReadFile(filepath.Join(c.cmd.Dir, "err"))
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(c.cmd.Path), err, bytes.TrimSpace(said))
	}
	return nil
}

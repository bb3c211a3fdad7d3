package opensm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/forsd/forsd/lft"
)

// DefaultReadBack prints the tables that the switches hold; it belongs to
// Debian's infiniband-diags.
var DefaultReadBack = []string{"dump_fts", "-n"}

const defaultReadBackTimeout = 30 * time.Second

// ReadBack reads the forwarding tables out of the switches.
type ReadBack struct {
	Command []string      // program and arguments; nil means DefaultReadBack
	Env     []string      // further variables, as NAME=value
	Timeout time.Duration // 0 means 30 s
	// Parse reads what the command prints; nil means lft.Read.
	Parse func(io.Reader) (*lft.Tables, error)
}

// Tables runs the command in a working directory of its own, which goes
// afterwards, and parses its output as it comes. The command and all that it
// started are killed when ctx ends, the time is over or Parse fails. The error
// holds what the command printed on standard error.
func (r ReadBack) Tables(ctx context.Context) (*lft.Tables, error) {
	argv := r.Command
	if len(argv) == 0 {
		argv = DefaultReadBack
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = defaultReadBackTimeout
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %v", timeout))
	defer cancel()
	t, err := r.run(limited, argv)
	if err != nil {
		return nil, fmt.Errorf("read tables back with %q: %w", strings.Join(argv, " "), hint(err))
	}
	return t, nil
}

func (r ReadBack) run(ctx context.Context, argv []string) (t *lft.Tables, err error) {
	err = runCommand(ctx, argv, r.Env, func(text io.Reader) (err error) {
		t, err = r.parse(text)
		return err
	})
	return t, err
}

func (r ReadBack) parse(text io.Reader) (*lft.Tables, error) {
	if r.Parse == nil {
		return lft.Read(text)
	}
	return r.Parse(text)
}

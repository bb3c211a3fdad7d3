package opensm

import (
	"cmp"
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
	Timeout time.Duration // 0 means 30 s
}

// Tables runs the command in a temporary working directory and parses its output as it
// arrives. It kills the command and all processes that the command started when ctx ends,
// the time is over or the output is not tables. The error contains the command's standard
// error.
func (r ReadBack) Tables(ctx context.Context) (*lft.Tables, error) {
	argv := r.Command
	if len(argv) == 0 {
		argv = DefaultReadBack
	}
	timeout := cmp.Or(r.Timeout, defaultReadBackTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %v", timeout))
	defer cancel()
	var t *lft.Tables
	err := runCommand(limited, argv, func(text io.Reader) (err error) {
		t, err = lft.Read(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tables back with %q: %w", strings.Join(argv, " "), hint(err))
	}
	return t, nil
}

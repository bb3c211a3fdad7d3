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

// ReadBack reads the forwarding tables out of the switches.
type ReadBack struct {
	Command []string // program and arguments, such as DefaultReadBack
	Timeout time.Duration
}

// Tables runs the command in a temporary working directory and parses its output as it
// arrives. It kills the command and all processes that the command started when ctx ends,
// the time is over or the output is not tables. The error contains the command's standard
// error.
func (r ReadBack) Tables(ctx context.Context) (t *lft.Tables, err error) {
	err = runCommand(ctx, r.Timeout, r.Command, func(text io.Reader) (err error) {
		t, err = lft.Read(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tables back with %q: %w", strings.Join(r.Command, " "), hint(err))
	}
	return t, nil
}

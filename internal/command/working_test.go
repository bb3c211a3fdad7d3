package command

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// TestWorking writes nothing within a second, then a line each second, and clears it.
func TestWorking(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{999 * time.Millisecond, ""},
		{2500 * time.Millisecond, "\r\x1b[Kplanning: 1 s; Ctrl-C takes the best so far\r\x1b[Kplanning: 2 s; Ctrl-C takes the best so far\r\x1b[K"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			done := working(&out, "planning", "; Ctrl-C takes the best so far")
			time.Sleep(c.after)
			done()
			if out.String() != c.want {
				t.Errorf("after %v: %q, want %q", c.after, &out, c.want)
			}
		})
	}
}

// TestInterrupted gives an interrupted command exit code 1.
func TestInterrupted(t *testing.T) {
	cmd := &cobra.Command{}
	ctx, cancel := context.WithCancel(t.Context())
	cmd.SetContext(ctx)
	if err := Interrupted(cmd); err != nil {
		t.Error(err)
	}
	cancel()
	if err := Interrupted(cmd); !errors.As(err, new(Violated)) {
		t.Errorf("%v, want a Violated", err)
	}
}

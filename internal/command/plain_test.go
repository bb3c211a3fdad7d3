package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPlain checks that escape sequences in names do not reach the terminal, neither in a
// command's output nor in its errors, and that data remain unchanged.
func TestPlain(t *testing.T) {
	const name = "Leaf\x1b[2J\x9b\x07\r\u202e\u009b1é–\t"
	root := NewRoot(&cobra.Command{Use: "prog"})
	root.AddCommand(&cobra.Command{Use: "work", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintln(cmd.OutOrStdout(), name)
		fmt.Fprintln(Raw(cmd.OutOrStdout()), "\x1b")
		fmt.Fprintln(cmd.ErrOrStderr(), name)
		return errors.New(name)
	}})
	var stdout, stderr bytes.Buffer
	if code := Run(root, []string{"work"}, &stdout, &stderr); code != Unusable {
		t.Errorf("exit code %d", code)
	}
	const shown = "Leaf�[2J�����1é–\t\n"
	if stdout.String() != shown+"\x1b\n" {
		t.Errorf("%q", stdout.String())
	}
	if stderr.String() != shown+"prog: "+shown || strings.Contains(stderr.String(), "\x1b") {
		t.Errorf("%q", stderr.String())
	}
}

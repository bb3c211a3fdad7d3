package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// TestRun checks the exit code and the message for each way to end.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		args           []string
		err            error
		code           int
		stdout, stderr string
	}{
		{args: []string{"version"}, stdout: "prog version v7\n"},
		{args: []string{"--version"}, stdout: "prog version v7\n"},
		{args: []string{"version", "--json"}, stdout: "{\n  \"schema\": \"prog/version\",\n  \"version\": 1,\n  \"program\": \"prog\",\n  \"release\": \"v7\"\n}\n"},
		{args: []string{"work"}, err: Violated{errors.New("wrong")}, code: Failed, stderr: "prog: wrong\n"},
		{args: []string{"work"}, err: errors.New("unreadable"), code: Unusable, stderr: "prog: unreadable\n"},
		{args: []string{"work"}, err: fmt.Errorf("reckon: %w", context.Canceled), code: Unusable, stderr: "prog: reckon: context canceled\n"},
		{args: []string{"interrupted"}, code: Failed, stderr: "prog: interrupted before there was anything to show\n"},
		{args: []string{"work", "--wild"}, code: Unusable, stderr: "prog: unknown flag: --wild: see prog work --help\n"},
	} {
		root := NewRoot(&cobra.Command{Use: "prog", Version: "v7"})
		root.AddCommand(&cobra.Command{Use: "work", RunE: func(*cobra.Command, []string) error { return c.err }})
		root.AddCommand(&cobra.Command{Use: "interrupted", RunE: func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return fmt.Errorf("reckon: %w", cmd.Context().Err())
		}})
		var stdout, stderr bytes.Buffer
		if code := Run(root, c.args, &stdout, &stderr); code != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%v: exit code %d, %q, %q; want %d, %q, %q", c.args, code, &stdout, &stderr, c.code, c.stdout, c.stderr)
		}
	}
}

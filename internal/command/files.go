package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
)

// ReadFlag reads the file that a required flag names. what describes the file in words.
func ReadFlag(flag, path, what string) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("--%s is missing: name %s", flag, what)
	}
	return ReadPath(path, MaxFile)
}

// Output is a file that a flag names. Its path is "" without the flag, and - for standard
// output.
type Output struct{ Flag, Path, What string }

// CheckOutput checks the path of a required output.
func CheckOutput(cmd *cobra.Command, o Output) error {
	switch {
	case o.Path == "":
		return fmt.Errorf("--%s is missing: name a file for %s, or - for standard output", o.Flag, o.What)
	case o.Path == "-" && WantsJSON(cmd):
		return fmt.Errorf("--json and --%s - both want standard output: name a file for %s", o.Flag, o.What)
	}
	return nil
}

// CheckOutputs checks optional outputs. No two of them may have the same path.
func CheckOutputs(cmd *cobra.Command, outs ...Output) error {
	for i, x := range outs {
		if x.Path == "" {
			continue
		}
		if err := CheckOutput(cmd, x); err != nil {
			return err
		}
		for _, other := range outs[:i] {
			if other.Path == x.Path {
				return fmt.Errorf("--%s and --%s both write to %s: give each a file of its own", other.Flag, x.Flag, x.Path)
			}
		}
	}
	return nil
}

// WriteOut writes data to standard output if path is -, and otherwise to a file, which it
// replaces atomically. If path is not a regular file, such as /dev/null or a pipe, it writes
// into it.
func WriteOut(cmd *cobra.Command, path string, data []byte) error {
	if path == "-" {
		_, err := Raw(cmd.OutOrStdout()).Write(data)
		return err
	}
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	return renameio.WriteFile(path, data, 0o644)
}

// WritePage writes a page in the same way, if there is a path.
func WritePage(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return err
	}
	return WriteOut(cmd, path, page.Bytes())
}

// Seconds formats a number of seconds in the same way as MS.
func Seconds(v float64) string { return MS(1e3 * v) }

// Took formats a duration in the same way as MS.
func Took(d time.Duration) string { return MS(float64(d.Microseconds()) / 1000) }

// Clock formats a time in local time, or "never" for the zero time.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// InBrackets formats a name as a suffix, " (name)", or returns "" for an empty name.
func InBrackets(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

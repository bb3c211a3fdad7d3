package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
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

// plain removes terminal control sequences from text. Names in files and of nodes come from
// others, and may contain escape sequences.
type plain struct{ io.Writer }

// Write writes p, and replaces each control character except tabs and line feeds by a visible
// sign.
func (w plain) Write(p []byte) (int, error) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, string(p))
	if _, err := io.WriteString(w.Writer, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw returns the writer for output other than text.
func Raw(w io.Writer) io.Writer {
	if p, is := w.(plain); is {
		return p.Writer
	}
	return w
}

// The maximum sizes in bytes of files that are read as a whole.
const (
	MaxFile = 1 << 30  // fabrics, tables and plans
	MaxText = 64 << 20 // files written by people, and lists of hosts
)

// ReadPath reads a file, and fails if it has more than most bytes. A regular file that is too
// long is not read at all.
func ReadPath(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if at, err := f.Stat(); err == nil && at.Mode().IsRegular() && at.Size() > most {
		return nil, tooLong(path, most)
	}
	return ReadAtMost(f, most, path)
}

// ReadAtMost reads a file, and fails if it has more than most bytes.
func ReadAtMost(r io.Reader, most int64, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, tooLong(name, most)
	}
	return data, err
}

// Parse parses what was read from a path. Errors contain the path.
func Parse[T any](path string, parse func([]byte) (T, error)) func(data []byte, err error) (T, error) {
	return func(data []byte, err error) (v T, _ error) {
		if err != nil {
			return v, err
		}
		if v, err = parse(data); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return v, err
	}
}

func tooLong(name string, most int64) error {
	return fmt.Errorf("read %s: it has more than %d bytes: is it the right file?", name, most)
}

// UnlessStopped returns the result of work, or an error as soon as the program is interrupted.
// The end of the process then ends the work.
func UnlessStopped[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// ReadTablesOf reads the forwarding tables of a fabric that was read from the path from. It
// rejects tables that cannot belong to that fabric, and prints doubts to standard error.
func ReadTablesOf(cmd *cobra.Command, f *topology.Fabric, from, path string) (*lft.Tables, error) {
	tables, err := ReadTables(path)
	if err != nil {
		return nil, err
	}
	doubts, err := tables.Misfit(f)
	if err != nil {
		return nil, fmt.Errorf("%s is not of the fabric of %s: %w", path, from, err)
	}
	for _, doubt := range doubts {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s on %s: %s\n", cmd.Root().Name(), path, from, doubt)
	}
	return tables, nil
}

// ReadTables reads forwarding tables in any format that package lft supports.
func ReadTables(path string) (*lft.Tables, error) {
	return Parse(path, lft.ReadBytes)(ReadFlag("lfts", path, "a file with forwarding tables (lfts.dump, opensm-lfts.dump or the output of dump_fts)"))
}

// Credentials are paths, each of which may be empty.
type Credentials struct {
	CA    string // PEM, authorities; by default those of the system
	Cert  string // PEM
	Key   string // PEM
	Token string
}

// CredentialsFromEnvironment returns the files named by FORSD_CA, FORSD_CERT, FORSD_KEY and
// FORSD_TOKEN_FILE.
func CredentialsFromEnvironment() Credentials {
	return Credentials{CA: os.Getenv("FORSD_CA"), Cert: os.Getenv("FORSD_CERT"), Key: os.Getenv("FORSD_KEY"), Token: os.Getenv("FORSD_TOKEN_FILE")}
}

// Read reads the files. Its errors use the names of the flags --ca, --cert, --key and
// --token-file.
func (f Credentials) Read() (out api.Credentials, err error) {
	if f.Token != "" {
		text, err := ReadPath(f.Token, 1<<10)
		if err != nil {
			return out, fmt.Errorf("--token-file: %w", err)
		}
		out.Token = strings.TrimSpace(string(text))
	}
	if f.CA+f.Cert+f.Key == "" {
		return out, nil
	}
	out.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := ReadPath(f.CA, MaxFile)
		if err != nil {
			return out, fmt.Errorf("--ca: %w", err)
		}
		if out.TLS.RootCAs = x509.NewCertPool(); !out.TLS.RootCAs.AppendCertsFromPEM(text) {
			return out, fmt.Errorf("--ca %s: there is no certificate in it", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return out, fmt.Errorf("--cert and --key: %w", err)
		}
		out.TLS.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

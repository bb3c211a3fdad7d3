//go:build !lpsolve

package ilp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// helper is the program that has lp_solve.
const helper = "forsd-lpsolve"

// find returns the path of the helper, or "" if it is not installed or does not start,
// for example without lp_solve's library. It looks only once.
var find = sync.OnceValue(func() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return findBeside(self)
})

// findBeside looks for the helper of a program: in the same directory, or in ../libexec.
func findBeside(program string) string {
	dir := filepath.Dir(program)
	for _, path := range []string{filepath.Join(dir, helper), filepath.Join(dir, "..", "libexec", "forsd", helper)} {
		if exec.Command(path, "--check").Run() == nil {
			return path
		}
	}
	return ""
}

// Available reports whether lp_solve is available.
func Available() bool { return find() != "" }

// solve runs lp_solve on the program in a separate process.
func solve(ctx context.Context, p *program) solution {
	s, err := ask(ctx, find(), p)
	switch {
	case ctx.Err() != nil:
		return solution{outcome: outOfTime}
	case err != nil:
		return solution{outcome: failed, detail: err.Error()}
	}
	return s
}

// ask runs the helper. Its standard input stays open until it has answered: it exits when
// that is closed, which the kernel does if this process ends.
func ask(ctx context.Context, path string, p *program) (solution, error) {
	cmd := exec.CommandContext(ctx, path)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return solution{}, err
	}
	if err := cmd.Start(); err != nil {
		return solution{}, err
	}
	wrote := writeProgram(in, p)
	if err := cmd.Wait(); err != nil {
		return solution{}, fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(said.String()))
	}
	s, err := readSolution(&out)
	return s, errors.Join(wrote, err)
}

// Serve is for the helper, which is built with lp_solve.
func Serve(io.Reader, io.Writer) error { return ErrNotBuiltIn }

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// shim is parts of the shim as programs: choice chooses by times that are given (choose.c), part gives
// the transfers of a part of the hosts their steps (part.c).
type shim struct{ choice, part string }

// compile makes the programs. root is the project's folder.
func compile(ctx context.Context, root, dir string) (*shim, error) {
	at := filepath.Join(root, "mpi", "libforsmpi")
	p := &shim{filepath.Join(dir, "choice"), filepath.Join(dir, "part")}
	for to, more := range map[string][]string{p.choice: {"src/choose.c", "../libfors/src/pace.c"}, p.part: nil} {
		args := []string{"-O2", "-Wall", "-Werror", "-I" + filepath.Join(at, "src"), "-I" + filepath.Join(root, "mpi", "libfors"), "-pthread", "-o", to,
			filepath.Join(at, "testdata", filepath.Base(to)+".c")}
		for _, file := range more {
			args = append(args, filepath.Join(at, file))
		}
		if out, err := exec.CommandContext(ctx, "mpicc", append(args, "-lm")...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("mpicc: %w\n%s", err, out)
		}
	}
	return p, nil
}

// repeats is how often the shim chooses in a cell, each time from the start.
const repeats = 20

// choose has the shim choose in each cell, over 2000 exchanges that take the times of their
// ways, and a plan that changes in their middle.
func choose(ctx context.Context, program string, all []*cell) error {
	var cases bytes.Buffer
	for _, c := range all {
		plan, once, mpi, clock := c.best()/c.shares[byPlan], c.best()/c.shares[atOnce], c.best()/c.shares[byMPI], 0.0
		if c.shares[byClock] > 0 {
			clock = c.best() / c.shares[byClock]
		}
		for range repeats {
			fmt.Fprintln(&cases, plan, once, mpi, plan, once, mpi, c.noise, 0, clock)
		}
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = &cases
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("choose: %w", err)
	}
	lines := bytes.NewReader(out)
	for _, c := range all {
		sum := 0.0 // of times over that of the fastest way
		for range repeats {
			var unequal, equal, next float64
			if _, err := fmt.Fscan(lines, &unequal, &next, &equal, &next); err != nil {
				return fmt.Errorf("choose: %w", err)
			}
			if c.shares[byClock] > 0 {
				unequal = equal
			}
			sum += unequal
		}
		c.chosen = max(c.best(), c.shares[byClock]) / (sum / repeats)
	}
	return nil
}

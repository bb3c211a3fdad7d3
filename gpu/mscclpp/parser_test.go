//go:build mscclpp

package mscclpp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/gpu/mscclpp"
)

// MSCCL++'s own parser, built without a GPU from the sources in the directory $MSCCLPP, accepts
// plans and reads the same operations as the tests' executor.
func TestOwnParser(t *testing.T) {
	parser := buildParser(t)
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range 1000 {
		_, plan := anyPlan(t, rng, 4, 3)
		data, chunk, err := mscclpp.Encode(t.Context(), plan)
		if err != nil && strings.Contains(err.Error(), "does not fit into") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := load(data, plan.GPUs, chunk)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var sizes, want bytes.Buffer
		for r := range x.plan.GPUs {
			fmt.Fprintln(&sizes, len(x.buffers[r]["i"]), len(x.buffers[r]["o"]))
			x.list(&want, r)
		}
		cmd := exec.CommandContext(t.Context(), parser, path)
		cmd.Stdin = &sizes
		if got, err := cmd.CombinedOutput(); err != nil || string(got) != want.String() {
			t.Fatalf("%d: %v: the parser reads\n%.3000s\nwant\n%.3000s", n, err, got, want.String())
		}
	}
}

// numbers are those of MSCCL++'s operations and buffers.
var (
	opNumber     = map[string]int{"nop": 0, "pwsf": 6, "put": 2, "copy": 8, "signal": 11, "wait": 12, "sem_release": 26, "sem_acquire": 27}
	bufferNumber = map[string]int{"i": 0, "o": 1, "s": 2}
)

// list prints what a rank does, as the parser does.
func (x *executor) list(out *bytes.Buffer, r int) {
	fmt.Fprintln(out, "rank", r, "scratch", len(x.buffers[r]["s"]))
	for _, b := range x.plan.GPUs[r].Blocks {
		for _, o := range b.Ops {
			fmt.Fprint(out, b.ID, " ", opNumber[o.Name])
			for _, id := range append(o.Channels, o.Semaphores...) {
				fmt.Fprint(out, " ", id)
			}
			for _, c := range append(o.From, o.To...) {
				id := 0
				if c.Buffer != nil {
					id = *c.Buffer
				} else {
					id = bufferNumber[*c.Type]
				}
				fmt.Fprintf(out, " %d@%d+%d", id, c.Index*x.chunk, c.Size*x.chunk)
			}
			fmt.Fprintln(out)
		}
	}
}

// buildParser builds the parser with stand-ins for the parts that need a GPU.
func buildParser(t *testing.T) string {
	t.Helper()
	sources, dir := os.Getenv("MSCCLPP"), t.TempDir()
	headers := filepath.Join(dir, "mscclpp")
	if err := os.Mkdir(headers, 0o700); err != nil {
		t.Fatal(err)
	}
	stubs, err := filepath.Abs("testdata/stubs.hpp")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"core.hpp", "gpu.hpp", "memory_channel.hpp", "port_channel.hpp", "switch_channel.hpp", "../debug.h"} {
		if err := os.Symlink(stubs, filepath.Join(headers, name)); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "parser")
	cmd := exec.Command("g++", "-std=c++17", "-O1", "-I"+dir, "-I"+filepath.Join(sources, "include"), "-I"+filepath.Join(sources, "src/core/include"),
		"-iquote", dir, "testdata/parser.cc", filepath.Join(sources, "src/core/executor/execution_plan.cc"), "-o", bin)
	if extra := os.Getenv("CPPFLAGS"); extra != "" {
		cmd.Args = append(cmd.Args, strings.Fields(extra)...)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return bin
}

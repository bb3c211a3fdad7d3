package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/built"
)

var (
	findWithin = flag.Duration("find", 0, "how long the world may take to find each of its faults; 0 looks at their texts alone")
	findOnly   = flag.String("only", "", "the faults whose names match this regular expression")
)

// TestWorldFinds has internal/daemon's world play its histories of the past and random ones with
// each fault in turn, and prints the violations found, with the processor time until then, and how
// often, to a power of ten, the faulty code has run. One program contains all faults, and its
// environment names one of them. At least 95 of 100 must be found.
func TestWorldFinds(t *testing.T) {
	root, err := built.Module(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := plantAll(t, root, dir)
	if *findWithin == 0 {
		return
	}
	overlay, err := json.Marshal(map[string]any{"Replace": program})
	if err != nil {
		t.Fatal(err)
	}
	file, world := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "world.test")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", file, "-o", world, "./internal/daemon")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	only := regexp.MustCompile(*findOnly)
	asked, found := 0, 0
	fmt.Println("| Fault | found after | ran | by |\n|---|---|---|---|")
	for _, f := range worldFaults {
		if !only.MatchString(f.name) {
			continue
		}
		cmd := exec.CommandContext(t.Context(), world, "-test.run", "^TestWorld(Found)?$", "-test.timeout", "0", "-test.failfast", "-world.seed", "1", "-world.runs", "1000000", "-world.for", findWithin.String(), "-world.first", "-world.fabric", "any")
		cmd.Dir, cmd.Env = filepath.Join(root, "internal/daemon"), append(os.Environ(), "FORS_PLANTED="+f.name)
		text, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		asked++
		said := regexp.MustCompile(`(?m)^(seed \d+: .*|panic: .*|fatal error: .*| +world_test.go:\d+: .*)$`).FindString(string(text))
		took := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Round(100 * time.Millisecond)
		ran := max(0, strings.Count(string(text), ranAgain)-1)
		after := fmt.Sprintf("10^%d", ran)
		if !strings.Contains(string(text), ranAgain) {
			after = "never"
		}
		if said == "" {
			fmt.Printf("| %s | not in %v | %s | |\n", f.name, took, after)
			continue
		}
		found++
		fmt.Printf("| %s | %v | %s | %.160s |\n", f.name, took, after, said)
	}
	if fmt.Printf("%d of %d found\n", found, asked); 100*found < 95*asked {
		t.Errorf("the world finds %d of %d faults", found, asked)
	}
}

// ranAgain is what a program says when its fault has run once, ten times, and so on.
const ranAgain = "the planted fault runs"

// plantedHere is in each package with faults.
const plantedHere = `

import (
	"os"
	"sync/atomic"
)

var (
	fault = os.Getenv("FORS_PLANTED")
	ran   atomic.Int64
	told  atomic.Int64
)

func planted(name string) bool {
	if fault != name {
		return false
	}
	if n := told.Load(); ran.Add(1) > n && told.CompareAndSwap(n, max(9, 10*n+9)) {
		println("` + ranAgain + `")
	}
	return true
}
`

// plantAll writes the changed files, and returns them by the paths of those that they replace.
func plantAll(t *testing.T, root, dir string) map[string]string {
	texts := map[string]string{}
	for _, f := range worldFaults {
		file := filepath.Join(root, f.file)
		if texts[file] == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
			name, _, _ := strings.Cut(texts[file][strings.Index(texts[file], "\npackage ")+len("\npackage "):], "\n")
			texts[filepath.Join(root, path.Dir(f.file), "planted_here.go")] = "package " + name + plantedHere
		}
		if n := strings.Count(texts[file], f.old); n != 1 {
			t.Errorf("%s: %s has %q %d times, want once", f.name, f.file, f.old, n)
		}
		texts[file] = strings.Replace(texts[file], f.old, strings.ReplaceAll(f.new, "PLANTED", fmt.Sprintf("planted(%q)", f.name)), 1)
	}
	out := map[string]string{}
	for file, text := range texts {
		out[file] = filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(file, root), "/", "_"))
		if err := os.WriteFile(out[file], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

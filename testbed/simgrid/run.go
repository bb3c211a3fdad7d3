package main

import (
	"bytes"
	"context"
	_ "embed" // of the MPI program
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/packets"
)

// settings make the platform's links the model: flows share them evenly (max-min), without
// TCP's windows, acknowledgements and slow start, without SMPI's factors for bandwidth and
// latency, and programs take no time of their own. Blocks of received data share memory. With
// network/optim:Lazy, the default, SimGrid 3.32 lets flows exceed a link: with min-hop's tables for
// FT(2;6,6) without nine cables, 72 blocks cross one in the time of 66.
var settings = []string{
	"network/model:CM02", "network/optim:Full", "network/crosstraffic:0", "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0", "network/TCP-gamma:0",
	"smpi/simulate-computation:no", "smpi/host-speed:1Gf", "smpi/init:0", "smpi/wtime:0", "smpi/test:0", "smpi/iprobe:0", "smpi/os:0:0:0", "smpi/or:0:0:0", "smpi/ois:0:0:0",
	"smpi/auto-shared-malloc-thresh:65536",
}

// runner runs exchanges.
type runner struct {
	dir      string // of files that are not kept
	bytes    int    // of a block
	hardware packets.Config
	only     *regexp.Regexp
}

func (r *runner) program() string { return filepath.Join(r.dir, "exchange") }

//go:embed testdata/exchange.c
var source []byte

// compile makes the MPI program.
func (r *runner) compile(ctx context.Context) error {
	file := r.program() + ".c"
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "smpicc", "-O2", "-Wall", "-Werror", "-o", r.program(), file).CombinedOutput(); err != nil {
		return fmt.Errorf("smpicc: %w\n%s", err, out)
	}
	return nil
}

// simgrid runs an exchange by MPI ranks on a simulated platform, and returns its throughput as
// a share of a link.
func (r *runner) simgrid(ctx context.Context, s *site, x *exchange) (share float64, err error) {
	write := func(name string, write func(io.Writer) error) string {
		var b bytes.Buffer
		if err == nil {
			err = write(&b)
		}
		path := filepath.Join(r.dir, name)
		if err == nil {
			err = os.WriteFile(path, b.Bytes(), 0o644)
		}
		return path
	}
	platform := write("platform.xml", func(w io.Writer) error { return writePlatform(w, s.fabric, s.tables, s.hosts, x.rows) })
	plan := write("plan.txt", func(w io.Writer) error { return writePlan(w, s.hosts, x.rows) })
	names := write("hosts", func(w io.Writer) (err error) {
		for i := range s.hosts {
			_, err = fmt.Fprintf(w, "h%d\n", i)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	args := []string{"-np", strconv.Itoa(len(s.hosts)), "-platform", platform, "-hostfile", names}
	for _, c := range settings {
		args = append(args, "--cfg="+c)
	}
	args = append(args, "--log=root.thres:warning", r.program(), x.how, strconv.Itoa(r.bytes))
	if x.plan {
		args = append(args, plan, fmt.Sprintf("%.9f", float64(r.bytes)/bandwidth))
	}
	cmd := exec.CommandContext(ctx, "smpirun", args...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("smpirun: %w\n%s", err, &errors)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil || seconds <= 0 {
		return 0, fmt.Errorf("the program printed %q: %w", out, err)
	}
	return float64(len(s.hosts)-1) * float64(r.bytes) / bandwidth / seconds, nil
}

// packets simulates the packets of the exchange, on switches with a queue for each output.
func (r *runner) packets(s *site, x *exchange) (float64, error) {
	got, err := packets.Run(s.fabric, s.tables, r.hardware, packets.Pacing{Pace: ways[x.how].pace}, packets.Of(x.rows, r.bytes))
	return got.Share, err
}

// loads is the throughput by the transfers that the busiest link has in each phase.
func (s *site) loads(x *exchange) (float64, error) {
	rows := x.rows
	if x.how == "at-once" {
		rows = slices.Clone(rows)
		for i := range rows {
			rows[i].Phase = 0
		}
	}
	got, err := sim.Run(s.fabric, s.tables, rows)
	if err == nil && got.Lost > 0 {
		err = fmt.Errorf("the tables lose %d transfers: %s", got.Lost, got.FirstLost)
	}
	if err != nil {
		return 0, err
	}
	return got.RelativeThroughput, nil
}

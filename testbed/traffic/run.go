package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/topology"
)

type options struct {
	n, bytes, rounds   int
	upTo               int // so many states
	rate               int64
	only               string   // one kind of tables
	programs           []string // of shapes; measured alone
	forsd, shim, lanes string
	dir                string // of the programs built
	tell               func(measurement)
}

// measurement is the result of an exchange, and the prediction.
type measurement struct {
	tables, state       string
	exchange            exchange
	predicted, measured float64 // shares of a link
	// waited is how long packets waited for links between switches, as a share of the
	// time in which these were busy: PortXmitWait relative to PortXmitData.
	waited float64
	count  *adapter.Counters
}

func (m *measurement) behind() float64 { return float64(m.count.Behind) / float64(m.count.Elapsed) }

// lost counts the packets that did not arrive.
func (m *measurement) lost() uint64 {
	return m.count.DeadPort + m.count.NoEntry + m.count.Loop + m.count.WrongLID
}

// build builds the program that exchanges, the data fabric, and its follower.
func (o options) build(ctx context.Context) error {
	module, err := built.Module(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(module, "testbed", "adapter", "testdata", "exchange.c")
	if out, err := exec.CommandContext(ctx, "mpicc", "-O2", "-o", o.program(), source, "-lm").CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	_, err = built.Program(ctx, o.dir, "testbed/adapter/follow")
	return errors.Join(err, adapter.Build(ctx, o.dir))
}

func (o options) program() string { return filepath.Join(o.dir, "exchange") }

// job is an exchange with a rank on each host.
func (b *bed) job(ctx context.Context, x exchange, bytes, rounds int) (*exec.Cmd, *strings.Builder, error) {
	cmd, err := b.data.MPI(ctx, b.o.n*b.o.n, x.env, b.o.program(), x.way, strconv.Itoa(bytes), strconv.Itoa(rounds))
	if err != nil {
		return nil, nil, err
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out, nil
}

var (
	took  = regexp.MustCompile(`(?m)^\w+: ([\d.]+) s, (\d+) bytes/s$`)
	wrong = regexp.MustCompile(`(?m)^wrong bytes: (\d+)$`)
)

// judge takes the throughput from a job's output; every byte must have arrived.
func judge(cmd *exec.Cmd, out string, err error) (throughput float64, _ error) {
	m, w := took.FindStringSubmatch(out), wrong.FindStringSubmatch(out)
	if err != nil || m == nil || w == nil || w[1] != "0" {
		return 0, fmt.Errorf("%s: %w: %s", cmd, errors.Join(err, errors.New("it did not go well")), out)
	}
	return strconv.ParseFloat(m[2], 64)
}

// measure runs an exchange and counts.
func (b *bed) measure(ctx context.Context, m measurement, f *topology.Fabric, switches *lft.Tables) (measurement, error) {
	r, err := simulate(f, switches, m.exchange.plan)
	if err != nil {
		return m, err
	}
	m.predicted = r.RelativeThroughput
	cmd, out, err := b.job(ctx, m.exchange, b.o.bytes, b.o.rounds)
	if err != nil {
		return m, err
	}
	if err := b.data.Clear(); err != nil {
		return m, err
	}
	err = b.finish(ctx, &m, cmd, out, cmd.Run())
	return m, err
}

// finish takes the result of a job, which ended by itself or with an error, and the counts
// during the job.
func (b *bed) finish(ctx context.Context, m *measurement, cmd *exec.Cmd, out *strings.Builder, ended error) (err error) {
	got, failed := judge(cmd, out.String(), ended)
	if m.count, err = b.data.Count(ctx); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		return fmt.Errorf("%w; lost packets: %d for dead ports, %d without entry, %d in loops, %d at other hosts", failed, m.count.DeadPort, m.count.NoEntry,
			m.count.Loop, m.count.WrongLID)
	}
	if err := b.data.Publish(ctx, b.Sim, m.count); err != nil {
		return err
	}
	m.measured = got / float64(b.o.rate) / efficiency
	m.waited = b.waits(m.count)
	return nil
}

// waits are the waits for links between switches, as a share of the time in which they were busy.
func (b *bed) waits(c *adapter.Counters) float64 {
	f := b.fabric
	var waited, busy float64
	for ref, p := range c.Ports {
		if peer := f.Nodes[ref.Node].Ports[ref.Port]; f.Nodes[ref.Node].Kind == topology.Switch && peer.Connected() && f.Nodes[peer.Peer].Kind == topology.Switch {
			waited += p.XmitWait.Seconds()
			busy += float64(p.XmitData) / float64(b.o.rate)
		}
	}
	return waited / busy
}

// mtu is the MTU of the fabric. A small message waits for a packet that is on a link, and an
// exchange in phases has a dozen small messages between two phases: with small packets, they
// take little of the time of a phase.
const mtu = 1024

// efficiency is the share of a packet that is data.
const efficiency = float64(mtu) / (mtu + 30)

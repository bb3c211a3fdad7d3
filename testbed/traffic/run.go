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
	"time"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/topology"
)

type options struct {
	n, bytes, rounds int
	rate             int64
	only             string // one kind of tables
	forsd, shim      string
	dir              string // of what was built
	tell             func(measurement)
	urgent           bool // ranks have real-time priority, whatever else runs on the machine
}

// measurement is what an exchange had, beside what is predicted.
type measurement struct {
	tables, state, exchange string
	predicted, measured     float64 // shares of a link
	waited                  float64 // longest PortXmitWait of a switch's port, a share of the time
	count                   *adapter.Counters
}

func (m *measurement) behind() float64 { return float64(m.count.Behind) / float64(m.count.Elapsed) }

// lost counts the packets that did not arrive.
func (m *measurement) lost() uint64 {
	return m.count.DeadPort + m.count.NoEntry + m.count.Loop + m.count.WrongLID
}

// build builds what exchanges, what carries the data, and what follows the simulation.
func (o options) build(ctx context.Context) error {
	module, err := built.Module(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(module, "testbed", "adapter", "testdata", "exchange.c")
	if out, err := exec.CommandContext(ctx, "mpicc", "-O2", "-o", o.program(), source).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	_, err = built.Program(ctx, o.dir, "testbed/adapter/follow")
	return errors.Join(err, adapter.Build(ctx, o.dir))
}

func (o options) program() string { return filepath.Join(o.dir, "exchange") }

// exchange is a job with a rank on each host.
func (b *bed) exchange(ctx context.Context, env []string, way string, rounds int) (*exec.Cmd, *strings.Builder, error) {
	command := []string{b.o.program(), way, strconv.Itoa(b.o.bytes), strconv.Itoa(rounds)}
	if b.o.urgent { // ranks that wait need no processor, and those that do not should have one
		command = append([]string{"chrt", "--rr", "1"}, command...)
	}
	cmd, err := b.data.MPI(ctx, b.o.n*b.o.n, env, command...)
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

// judge takes the throughput from what a job printed; every byte must have arrived.
func judge(cmd *exec.Cmd, out string, err error) (throughput float64, _ error) {
	m, w := took.FindStringSubmatch(out), wrong.FindStringSubmatch(out)
	if err != nil || m == nil || w == nil || w[1] != "0" {
		return 0, fmt.Errorf("%s: %w: %s", cmd, errors.Join(err, errors.New("it did not go well")), out)
	}
	return strconv.ParseFloat(m[2], 64)
}

// measure runs an exchange and counts.
func (b *bed) measure(ctx context.Context, m measurement, env []string) (measurement, error) {
	way := strings.Fields(m.exchange)[0]
	cmd, out, err := b.exchange(ctx, env, way, b.o.rounds)
	if err != nil {
		return m, err
	}
	if err := b.data.Clear(); err != nil {
		return m, err
	}
	err = cmd.Run()
	got, failed := judge(cmd, out.String(), err)
	if m.count, err = b.data.Count(ctx); err != nil {
		return m, errors.Join(failed, err)
	}
	if failed != nil {
		return m, fmt.Errorf("%w; lost packets: %d for dead ports, %d without entry, %d in loops, %d at other hosts", failed, m.count.DeadPort, m.count.NoEntry,
			m.count.Loop, m.count.WrongLID)
	}
	if err := b.data.Publish(ctx, b.Sim, m.count); err != nil {
		return m, err
	}
	m.measured = got / float64(b.o.rate) / efficiency
	f, err := b.Fabric(ctx)
	if err != nil {
		return m, err
	}
	for ref, p := range m.count.Ports {
		if f.Nodes[ref.Node].Kind == topology.Switch {
			m.waited = max(m.waited, float64(p.XmitWait)/float64(m.count.Elapsed))
		}
	}
	return m, nil
}

// mtu is that of the fabric. A small message waits for a packet that is on a link, and an
// exchange in phases has a dozen small messages between two phases: small packets keep
// that small beside the time of a phase.
const mtu = 1024

// efficiency is the share of a packet that is data.
const efficiency = float64(mtu) / (mtu + 30)

// states measures on the healthy fabric, pulls the cable in the middle of an exchange,
// and measures without it. Settled waits until the fabric is routed, and gives the plan
// for base LIDs that MPI_Alltoall follows, if any.
func (b *bed) states(ctx context.Context, tables string, env []string, settled func(context.Context) (*phasetable.View, error)) (all []measurement, err error) {
	for _, state := range []string{"healthy", "a dead cable"} {
		if state != "healthy" {
			if err := b.pulled(ctx, env); err != nil {
				return nil, fmt.Errorf("a cable pulled in the middle: %w", err)
			}
		}
		plan, err := settled(ctx)
		if err != nil {
			return nil, err
		}
		if err := b.follow.Caught(ctx); err != nil {
			return nil, err
		}
		f, switches, err := b.state(ctx)
		if err != nil {
			return nil, err
		}
		share, err := shift(f, switches)
		if err != nil {
			return nil, err
		}
		m := measurement{tables: tables, state: state, exchange: "shift in step", predicted: share}
		if m, err = b.measure(ctx, m, nil); err != nil {
			return nil, err
		}
		all = append(all, m)
		b.o.tell(m)
		m = measurement{tables: tables, state: state, exchange: "alltoall", predicted: share}
		if plan != nil {
			m.exchange = "alltoall by the plan"
			if m.predicted, err = planned(f, switches, plan); err != nil {
				return nil, err
			}
		}
		if m, err = b.measure(ctx, m, env); err != nil {
			return nil, err
		}
		all = append(all, m)
		b.o.tell(m)
	}
	return all, nil
}

// pulled pulls the cable while exchanges run, which must go on to the end.
func (b *bed) pulled(ctx context.Context, env []string) error {
	cmd, out, err := b.exchange(ctx, env, "alltoall", 2)
	if err != nil {
		return err
	}
	if err := b.data.Clear(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for { // until a good part of the data is on its way
		c, err := b.data.Count(ctx)
		if err != nil {
			return err
		}
		var sent uint64
		for _, p := range c.Ports {
			sent += p.RcvData
		}
		if sent > uint64(3*b.o.n*b.o.n*b.o.n*b.o.n*b.o.bytes) {
			break
		}
		select {
		case err := <-ended:
			_, err = judge(cmd, out.String(), err)
			return errors.Join(err, errors.New("it ended too early"))
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := b.pull(ctx); err != nil {
		return err
	}
	err = <-ended
	_, err = judge(cmd, out.String(), err)
	return err
}

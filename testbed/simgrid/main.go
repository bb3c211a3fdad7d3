// Command simgrid has SimGrid, a simulator of another project, run an MPI program on a fabric's
// forwarding tables, and compares its throughput with those that packages packets and sim give
// for the same exchange. SimGrid models flows: those that meet on a link share it evenly
// (max-min). It is make simgrid.
//
// The three agree within 3 % where they model the same, and the command fails if they do not:
//
//   - At once: SimGrid takes as long as sim's busiest link. Packets are not judged: a buffer full
//     of packets for a busy output holds up those for others. On FT(2;6,6) with three dead
//     cables, on lanes, packets of 4 KiB have 0.863 of a link with 16 places in a buffer, 0.926
//     with 128, 0.965 with endless buffers; SimGrid, which has no buffers, 0.972.
//   - In step, without a barrier: SimGrid as packets with a rendezvous. sim has a barrier after
//     each phase and no latency, and is not judged.
//   - Ahead: the same with receives posted ahead, as packets in pairs. Ranks drift apart, flows of
//     different phases meet, and how they share a link decides what meets next: not judged.
//   - By the clock: all three.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
)

// tolerance is the largest relative difference of two throughputs that are comparable.
const tolerance = 0.03

func main() {
	spec, r := fabgen.Spec{}, runner{hardware: packets.HDR, only: new(regexp.Regexp)}
	flag.IntVar(&spec.Spines, "spines", 20, "spines, and hosts of a leaf")
	flag.IntVar(&spec.Leaves, "leaves", 18, "leaves")
	flag.IntVar(&r.bytes, "bytes", 1<<20, "bytes of a block")
	flag.IntVar(&r.hardware.Packet, "packet", 16<<10, "bytes of a packet in package packets; a buffer has room for 16")
	dead := flag.String("dead", "0,1,3,9", "numbers of dead cables at random places, with commas between them")
	flag.TextVar(r.only, "only", regexp.MustCompile(""), "a regular expression: exchanges of which it matches the tables and the name")
	flag.Parse()
	command.Main("simgrid", func(ctx context.Context) error { return show(ctx, spec, &r, strings.Split(*dead, ",")) })
}

// show measures and prints.
func show(ctx context.Context, spec fabgen.Spec, r *runner, states []string) (err error) {
	if r.dir, err = os.MkdirTemp("", "simgrid"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if err := r.compile(ctx); err != nil {
		return err
	}
	hosts := spec.Spines * spec.Leaves
	fmt.Printf("FT(2;%d,%d), %d hosts, links of 200 Gb/s, %d ns from host to host; each host sends %d bytes to each other, a phase takes %.1f µs.\n",
		spec.Spines, spec.Leaves, hosts, 2*hostLatency, r.bytes, float64(r.bytes)/bandwidth*1e6)
	fmt.Printf("Shares of a link; packets have %d bytes.\n\n", r.hardware.Packet)
	fmt.Printf(head, "dead", "tables", "exchange", "SimGrid", "packets", "sim", "")
	var errs []error
	for _, state := range states {
		dead, err := strconv.Atoi(state)
		if err != nil || dead < 0 || dead > hosts/4 {
			return fmt.Errorf("-dead %s: want numbers from 0 to %d, a quarter of the cables", state, hosts/4)
		}
		for _, tables := range []func(context.Context, fabgen.Spec, int) (*site, error){byMinHop, byForsd} {
			s, err := tables(ctx, spec, dead)
			if err != nil {
				return err
			}
			for i := range s.list {
				x := &s.list[i]
				if !r.only.MatchString(x.tables + ", " + x.name) {
					continue
				}
				m, err := r.measure(ctx, s, x)
				if err != nil {
					return fmt.Errorf("%s dead cables, %s, %s: %w", state, x.tables, x.name, err)
				}
				errs = append(errs, m.judge())
				fmt.Printf(row, dead, x.tables, x.name, m.simgrid, m.packets, m.loads, m.remark())
			}
		}
	}
	return errors.Join(errs...)
}

const (
	head = "%4s  %-16s  %-16s %8s %8s %8s  %s\n"
	row  = "%4d  %-16s  %-16s %8.3f %8.3f %8.3f  %s\n"
)

// measurement has throughputs of an exchange as shares of a link.
type measurement struct {
	*exchange
	simgrid, packets, loads float64
}

func (r *runner) measure(ctx context.Context, s *site, x *exchange) (m measurement, err error) {
	m.exchange = x
	if m.simgrid, err = r.simgrid(ctx, s, x); err != nil {
		return m, err
	}
	if m.packets, err = r.packets(s, x); err != nil {
		return m, err
	}
	m.loads, err = s.loads(x)
	return m, err
}

// apart are the comparisons that differ by more than the tolerance.
func (m *measurement) apart() (packets, loads bool) {
	off := func(other float64) bool { return math.Abs(m.simgrid/other-1) > tolerance }
	return off(m.packets), off(m.loads)
}

// judge is an error if comparable throughputs differ.
func (m *measurement) judge() error {
	packets, loads := m.apart()
	how := ways[m.how]
	if packets && how.asPackets || loads && how.asLoads {
		return fmt.Errorf("%s, %s: SimGrid %.3f, packets %.3f, sim %.3f", m.tables, m.name, m.simgrid, m.packets, m.loads)
	}
	return nil
}

// remark says why throughputs differ that are not comparable.
func (m *measurement) remark() string {
	if packets, loads := m.apart(); packets || loads {
		return ways[m.how].why
	}
	return ""
}

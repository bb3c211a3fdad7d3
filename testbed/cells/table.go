package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/topology"
)

// late is the age in picoseconds of the queue lengths by which adaptive switches choose that are
// late.
const late = 1_000_000

// compare prints the throughput of equal blocks among all hosts on the tables of OpenSM's min-hop,
// by adaptive switches, and on forsd's tables without the shim and with it. All but the last post
// everything at once.
func (o *options) compare(ctx context.Context, chooser string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "dead\tqueues\tbytes\tblock\tjitter\tmin-hop\tadaptive\t1 µs late\tforsd's tables\twith the shim")
	for _, dead := range o.dead {
		own, err := o.site(ctx, dead)
		if err != nil {
			return err
		}
		minHop, err := o.byMinHop(ctx, dead)
		if err != nil {
			return err
		}
		for _, queues := range []packets.Queues{packets.VOQ, packets.FIFO} {
			for _, bytes := range o.bytes {
				for _, jitter := range o.jitters {
					c := &cell{site: own, dead: dead, queues: queues, pattern: patterns[0], part: parts[0].name, jobs: make([]int, len(own.hosts)), steps: own.plan, bytes: bytes, jitter: jitter}
					shares, err := c.beside(ctx, chooser, minHop, o.speedup)
					if err != nil {
						return err
					}
					fmt.Fprintf(w, "%d\t%v\t%d\t%.1f µs\t%g\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\n", dead, queues, bytes, float64(bytes)*float64(packets.HDR.Byte)/1e6, jitter,
						shares[0], shares[1], shares[2], c.shares[atOnce], c.chosen)
				}
			}
		}
	}
	return w.Flush()
}

// beside simulates a cell on forsd's tables, and returns the throughput of its exchange at once by
// min-hop, by adaptive switches, and by those that are late.
func (c *cell) beside(ctx context.Context, chooser string, minHop *site, speedup int) (shares [3]float64, err error) {
	if err := c.simulate(ctx, speedup); err != nil {
		return shares, err
	}
	if err := choose(ctx, chooser, []*cell{c}); err != nil {
		return shares, err
	}
	other, adaptive, delayed := *c, *c, *c
	other.site, adaptive.adaptive, delayed.adaptive, delayed.delay = minHop, true, true, late
	for i, x := range [...]*cell{&other, &adaptive, &delayed} {
		if err := x.measure(ctx, packets.Pacing{Pace: packets.AtOnce}, x.messages(x.plan), speedup, &shares[i]); err != nil {
			return shares, err
		}
	}
	return shares, nil
}

// byMinHop is site with the tables of OpenSM's min-hop, and the linear shift in place of a plan.
func (o *options) byMinHop(ctx context.Context, dead int) (*site, error) {
	spec := o.spec
	spec.LMC = 0
	f := fabgen.Generate(spec)
	base, err := topology.NewBaseline(f)
	if err != nil {
		return nil, err
	}
	spec.Cut(f, spec.DrawDead(1, dead)...)
	seen, tables, _, err := e2e.Routed(ctx, f, "minhop")
	if err != nil {
		return nil, err
	}
	tree, err := topology.Fit(seen, base, nil)
	if err != nil {
		return nil, err
	}
	s := &site{fabric: seen, tables: tables, plan: sim.LinearShift(tree)}
	for _, i := range tree.Servers {
		s.hosts = append(s.hosts, tree.Hosts[i].GUID)
	}
	return s, nil
}

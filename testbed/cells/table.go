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

// compare prints what equal blocks among all hosts get on the tables of OpenSM's min-hop, by
// adaptive switches, and on forsd's tables without the shim and with it. All but the last post
// everything at once.
func (o *options) compare(ctx context.Context, p *shim) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	for _, bytes := range o.bytes {
		for _, jitter := range o.jitters {
			fmt.Fprintf(w, "%d bytes, %.1f µs a block at 200 Gb/s, jitter %g\n", bytes, float64(bytes)*float64(packets.HDR.Byte)/1e6, jitter)
			fmt.Fprintln(w, "queues\tdead\tmin-hop\tadaptive\t1 µs late\tforsd's tables\twith the shim")
			for _, queues := range []packets.Queues{packets.VOQ, packets.FIFO} {
				for _, dead := range o.dead {
					c := cell{dead: dead, queues: queues, pattern: patterns[0], part: parts[0].name, bytes: bytes, jitter: jitter}
					shares, err := o.beside(ctx, p, &c)
					if err != nil {
						return err
					}
					fmt.Fprintf(w, "%v\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\n", queues, dead, shares[0], shares[1], shares[2], c.shares[atOnce], c.chosen)
				}
			}
		}
	}
	return w.Flush()
}

// beside simulates a cell on forsd's tables, and returns its throughput at once by min-hop, by
// adaptive switches, and by those that are late.
func (o *options) beside(ctx context.Context, p *shim, c *cell) (shares [3]float64, err error) {
	if c.site, err = o.site(ctx, c.dead); err != nil {
		return shares, err
	}
	c.jobs, c.steps = make([]int, len(c.hosts)), c.plan
	if err := c.simulate(ctx, o.speedup); err != nil {
		return shares, err
	}
	if err := choose(ctx, p.choice, []*cell{c}); err != nil {
		return shares, err
	}
	minHop := *c
	if minHop.site, err = o.byMinHop(ctx, c.dead); err != nil {
		return shares, err
	}
	adaptive, delayed := *c, *c
	adaptive.adaptive, delayed.adaptive, delayed.delay = true, true, late
	for i, x := range [...]*cell{&minHop, &adaptive, &delayed} {
		if err := x.measure(ctx, packets.Pacing{Pace: packets.AtOnce}, x.messages(x.plan), o.speedup, &shares[i]); err != nil {
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

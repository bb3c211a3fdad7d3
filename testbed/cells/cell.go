package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/topology"
)

// The ways in which the shim carries an exchange out, as in choose.c.
const (
	byPlan = iota
	atOnce
	byMPI
	byClock
	ways
)

// site is a fabric with forsd's tables and its plan for base LIDs.
type site struct {
	fabric *topology.Fabric
	tables *lft.Tables
	plan   []sim.Row
	view   *phasetable.View // of the plan, nil without one
	hosts  []ib.GUID
}

// cell is an exchange on a site, with the throughputs of its ways as shares of a link.
type cell struct {
	*site
	dead   int
	queues packets.Queues
	pattern
	part   string
	jobs   []int     // [host] number of its job, -1: it has none
	steps  []sim.Row // the plan's, in the steps that the shim gives these jobs
	bytes  int
	jitter float64

	adaptive bool  // switches are
	delay    int64 // the age of the queue lengths by which these choose, in picoseconds

	shares [ways]float64 // 0: not for this exchange
	noise  float64       // of the times, as a share of the least
	chosen float64
}

// pattern is how blocks differ, as in testbed/adapter's exchange.c.
type pattern struct {
	name  string
	bytes func(rng *rand.Rand, bytes, to int) int
}

var patterns = []pattern{
	{"equal", func(_ *rand.Rand, bytes, _ int) int { return bytes }},
	{"lognormal", func(rng *rand.Rand, bytes, _ int) int { return int(float64(bytes) * math.Exp(rng.NormFloat64()-.5)) }},
	{"sparse", func(rng *rand.Rand, bytes, _ int) int {
		if rng.Float64() < .2 {
			return bytes
		}
		return 0
	}},
	{"popular", func(_ *rand.Rand, bytes, to int) int {
		if to%6 == 0 {
			return bytes
		}
		return bytes / 8
	}},
}

// parts are which hosts take part: all, a third of them, and all in two jobs, drawn at random.
var parts = []struct {
	name string
	job  func(rng *rand.Rand) int
}{
	{"all", func(*rand.Rand) int { return 0 }},
	{"a third", func(rng *rand.Rand) int { return -min(1, rng.IntN(3)) }},
	{"two jobs", func(rng *rand.Rand) int { return rng.IntN(2) }},
}

// cells lists the cells.
func (o *options) cells(ctx context.Context, by *shim) (all []*cell, err error) {
	n := 0
	for _, dead := range o.dead {
		s, err := o.site(ctx, dead)
		if err != nil {
			return nil, err
		}
		for _, queues := range []packets.Queues{packets.VOQ, packets.FIFO} {
			for _, p := range patterns {
				for _, part := range parts {
					rng, jobs := rand.New(rand.NewPCG(1, 2)), make([]int, len(s.hosts))
					for h := range jobs {
						jobs[h] = part.job(rng)
					}
					steps, err := s.step(ctx, by.part, jobs)
					if err != nil {
						return nil, err
					}
					for _, bytes := range o.bytes {
						for _, jitter := range o.jitters {
							if n++; (n-1)%o.every == 0 {
								all = append(all, &cell{site: s, dead: dead, queues: queues, pattern: p, part: part.name, jobs: jobs, steps: steps, bytes: bytes, jitter: jitter})
							}
						}
					}
				}
			}
		}
	}
	return all, nil
}

// site plans the fabric with some cables dead.
func (o *options) site(ctx context.Context, dead int) (*site, error) {
	if o.pods > 0 {
		return podSite(ctx, o.pods, dead)
	}
	tree, err := o.spec.Fit(o.spec.DrawDead(1, dead)...)
	if err != nil {
		return nil, err
	}
	made, err := planner.Make(ctx, tree, planner.Settings{})
	if err != nil {
		return nil, err
	}
	if made.Base == nil {
		return nil, fmt.Errorf("planning for base LIDs failed: %v", made.Notes)
	}
	return newSite(tree.Fabric, made.Tables, made.Base.Table(0))
}

// podSite is site for a tree of three levels.
func podSite(ctx context.Context, k, dead int) (*site, error) {
	spec := fabgen.KAry(k)
	whole := fabgen.GenerateTree(spec)
	base, err := topology.NewPodBaseline(whole)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, uint64(dead)))
	for _, part := range spec.Draw(rng, fabgen.Damage{LeafCables: dead / 2, TopCables: dead - dead/2}) {
		_, _ = whole.Fail(part) // a cable may be drawn by both of its ends
	}
	tree, err := topology.FitPods(whole, base, nil)
	if err != nil {
		return nil, err
	}
	made, err := podplan.Make(ctx, tree, podplan.Settings{})
	if err != nil {
		return nil, err
	}
	if made.Base == nil {
		return nil, fmt.Errorf("planning for base LIDs failed")
	}
	return newSite(whole, made.Tables, made.Base.Table(0))
}

func newSite(f *topology.Fabric, tables *lft.Tables, base *phasetable.Table) (*site, error) {
	view, err := phasetable.New(base)
	if err != nil {
		return nil, err
	}
	s := &site{fabric: f, tables: tables, plan: sim.RowsOf(view), view: view}
	for i := range view.Servers() {
		s.hosts = append(s.hosts, view.Server(i).GUID)
	}
	return s, nil
}

// messages are the blocks of the cell in the order of some rows, as far as its jobs exchange
// them.
func (c *cell) messages(rows []sim.Row) (list []packets.Message) {
	at := make(map[ib.GUID]int, len(c.hosts))
	for i, g := range c.hosts {
		at[g] = i
	}
	n := len(c.hosts)
	length := make([]int, n*n)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range length {
		length[i] = c.pattern.bytes(rng, c.bytes, i%n)
	}
	for _, r := range rows {
		if s, d := at[r.Src], at[r.Dst]; c.jobs[s] >= 0 && c.jobs[s] == c.jobs[d] {
			list = append(list, packets.Message{Phase: r.Phase, Src: r.Src, Dst: r.Dst, DLID: r.DLID, Bytes: length[s*n+d]})
		}
	}
	return list
}

// shifted are the rows of a linear shift among the hosts of each job, in the order of ranks.
func (c *cell) shifted() (rows []sim.Row) {
	lid := map[ib.GUID]ib.LID{}
	for _, r := range c.plan {
		lid[r.Dst] = r.DLID
	}
	for job := range 2 {
		var ranks []ib.GUID
		for h, g := range c.hosts {
			if c.jobs[h] == job {
				ranks = append(ranks, g)
			}
		}
		for p := 1; p < len(ranks); p++ {
			for i, g := range ranks {
				to := ranks[(i+p)%len(ranks)]
				rows = append(rows, sim.Row{Phase: int32(p), Src: g, Dst: to, DLID: lid[to]})
			}
		}
	}
	return rows
}

// A cell with jitter is simulated with so many seeds. Phases by the clock are so much longer
// than their block, of which the shim finds the best by trying.
const seeds = 3

var guards = []float64{0, .05, .1, .2, .4}

// news is the time of a message without data.
const news = 500_000

// simulate measures all ways.
func (c *cell) simulate(ctx context.Context, speedup int) error {
	planned, shifted := c.messages(c.steps), c.messages(c.shifted())
	for w, p := range [...]packets.Pacing{byPlan: {Pace: packets.ByLinks}, atOnce: {Pace: packets.AtOnce}, byMPI: {Pace: packets.Pairwise}} {
		list := planned
		if w == byMPI {
			list = shifted
		}
		if err := c.measure(ctx, p, list, speedup, &c.shares[w]); err != nil {
			return err
		}
	}
	if c.name != "equal" {
		return nil
	}
	for _, guard := range guards {
		share := 0.0
		if err := c.measure(ctx, packets.Pacing{Pace: packets.Clock, Guard: guard}, planned, speedup, &share); err != nil {
			return err
		}
		c.shares[byClock] = max(c.shares[byClock], share)
	}
	return nil
}

// measure simulates one way, and adds to the noise if its times differ.
func (c *cell) measure(ctx context.Context, p packets.Pacing, list []packets.Message, speedup int, share *float64) error {
	cfg := packets.HDR
	cfg.Queues, cfg.Speedup, cfg.Adaptive, cfg.Delay = c.queues, speedup, c.adaptive, c.delay
	p.News, p.Jitter = news, int64(c.jitter*float64(c.bytes)*float64(cfg.Byte))
	runs := seeds
	if c.jitter == 0 {
		runs = 1
	}
	var times []float64
	ideal := 0.0
	for seed := range runs {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		cfg.Seed = uint64(seed + 1)
		r, err := packets.Run(c.fabric, c.tables, cfg, p, list)
		if err != nil {
			return err
		}
		ideal = float64(r.Ideal)
		times = append(times, float64(r.Time))
	}
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	mean := sum / float64(len(times))
	*share = ideal / mean
	c.noise = max(c.noise, mean/slices.Min(times)-1)
	return nil
}

// best is the throughput of the best of the plan, everything at once, and MPI's own.
func (c *cell) best() float64 { return slices.Max(c.shares[:byClock]) }

// share is the chosen way's throughput as a share of the better of the others.
func (c *cell) share() float64 { return c.chosen / c.best() }

// record is the cell's line.
func (c *cell) record() []string {
	line := []string{strconv.Itoa(c.dead), c.queues.String(), c.name, c.part, strconv.Itoa(c.bytes), strconv.FormatFloat(c.jitter, 'g', -1, 64)}
	for _, x := range append(c.shares[:], c.chosen, c.share()) {
		text := ""
		if x > 0 {
			text = fmt.Sprintf("%.3f", x)
		}
		line = append(line, text)
	}
	return line
}

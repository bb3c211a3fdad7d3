package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forsd/forsd/bipartite"
)

// Planner makes plans and reuses its scratch memory. The zero value is ready for use;
// a Planner must not be used by two goroutines at once.
type Planner struct {
	// MaxTransfers is the most transfers that a plan may have; 0 means 2^25, about a
	// gigabyte.
	MaxTransfers int

	colourer   bipartite.Colourer
	decomposer bipartite.Decomposer
	arcs       []bipartite.Arc
	match      []int32
	weights    []int64
}

// Options say how to make a plan, in flags and in requests. The zero value means Auto.
type Options struct {
	Mode Mode `json:"mode"`
	// Grain is, in mode Bytes, the unit to which the bytes that a NIC sends for a pair
	// of servers are rounded up, for fewer and longer stages; in the other modes it is
	// the size of a packet, which is never divided. 0 means 1.
	Grain int64 `json:"grain"`
	// MaxStretch, in mode Bytes, is the largest ratio of a plan's length to the least
	// possible; the largest Grain within it is used. 0 means 1.
	MaxStretch float64 `json:"max_stretch"`
	// Fewest makes mode Bytes search longer for fewer stages; Auto tries both.
	Fewest bool `json:"fewest"`
	// MaxStage, in mode Bytes, is the longest stage: longer ones are cut into equal
	// parts, so that ranks need smaller buffers and move less before the first stage
	// and after the last. 0 means any length.
	MaxStage int64 `json:"max_stage"`
	// Groups, in mode Bytes, is into how many groups the working NICs of a server, on each rail,
	// are divided. The NICs of a group send together to those of another one. 0 means one if all
	// servers are alike, and otherwise each NIC by itself, with which no plan is shorter.
	Groups int `json:"-"`
	// Budget limits the time in which Auto and Choose try alternatives; one that has
	// begun may exceed it. 0 means no limit. With a budget, the plan depends on the
	// speed of the machine.
	Budget time.Duration `json:"-"`
	// Model predicts the times of plans. The zero value means DefaultModel.
	Model Model `json:"-"`
}

func (o *Options) check() error {
	switch {
	case o.Grain < 0 || o.Grain > maxTotal:
		return fmt.Errorf("grain %d: want 0 to %d bytes", o.Grain, int64(maxTotal))
	case o.MaxStretch != 0 && !(o.MaxStretch >= 1 && o.MaxStretch <= 1000):
		return fmt.Errorf("stretch %v: want 1 to 1000 times the least length", o.MaxStretch)
	case o.Budget < 0:
		return fmt.Errorf("a budget of %v: want a time, or 0 for no limit", o.Budget)
	case o.MaxStage < 0 || o.MaxStage > maxTotal:
		return fmt.Errorf("stages of at most %d bytes: want 1 to %d, or 0 for any length", o.MaxStage, int64(maxTotal))
	case o.Groups < 0 || o.Groups > MaxRanks:
		return fmt.Errorf("%d groups of NICs: want 0 to %d", o.Groups, MaxRanks)
	case o.Grain > 1 && o.MaxStretch > 1:
		return errors.New("grain and stretch both say how much lengths may be rounded up: give one of them")
	}
	return o.Model.check()
}

// Plan makes a plan of a traffic. It fails if the traffic or the options are invalid, if the
// plan has too many transfers, and soon after ctx ends. With the error of ctx, mode Auto also
// returns the best plan so far, if any.
func (p *Planner) Plan(ctx context.Context, t *Traffic, o Options) (*Plan, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	switch o.Mode {
	case "", Auto:
		return p.best(ctx, t, o)
	case Bytes:
		return p.bytes(ctx, t, o, -1)
	case Rails, MinMove, Paper, None:
		return p.units(ctx, t, o)
	}
	return nil, fmt.Errorf("unknown mode %q: want one of %q", o.Mode, Modes)
}

// units plans in packets of Grain bytes.
func (p *Planner) units(ctx context.Context, t *Traffic, o Options) (*Plan, error) {
	switch {
	case t.Site != nil && (t.Site.Rails || t.Site.Lanes != nil || o.Mode != MinMove && o.Mode != None):
		return nil, fmt.Errorf("mode %s is for servers that are all alike: want mode %s or %s", o.Mode, Bytes, Auto)
	case o.MaxStretch > 1:
		return nil, fmt.Errorf("mode %s keeps to the length of its frames: a stretch is for mode %s", o.Mode, Bytes)
	case o.MaxStage > 0:
		return nil, fmt.Errorf("mode %s does not choose how long its stages are: a limit is for mode %s", o.Mode, Bytes)
	case o.Fewest:
		return nil, fmt.Errorf("mode %s does not choose how many stages it has: fewest is for mode %s", o.Mode, Bytes)
	}
	grain := max(1, o.Grain)
	packets := t.packets(grain)
	var d *draft
	var err error
	switch {
	case o.Mode == Rails:
		d, err = p.rails(ctx, packets)
	case o.Mode == MinMove || t.Site != nil:
		d, err = p.minMove(ctx, packets, o.Mode == None)
	default:
		d, err = p.paper(ctx, packets, o.Mode == Paper)
	}
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", o.Mode, err)
	}
	s, err := newServers(ctx, t)
	if err != nil {
		return nil, err
	}
	d.bound, d.site = s.bound, t.Site
	plan := d.finish(t, o.Mode, grain, o.Model.orDefault().at(t.Site))
	plan.Certificate = s.proof
	return plan, nil
}

// draft returns an empty draft with room for the messages of the traffic and some that
// are divided.
func (p *Planner) draft(t *Traffic) *draft {
	messages := 0
	for _, v := range t.Bytes {
		if v > 0 {
			messages++
		}
	}
	return p.draftFor(t, -1, messages+messages/4)
}

// draftFor returns an empty draft for a server, or −1 for all, with room for segments.
func (p *Planner) draftFor(t *Traffic, own, segments int) *draft {
	most := p.MaxTransfers
	if most == 0 {
		most = 1 << 25
	}
	return &draft{c: t.Cluster, own: own, most: most, segments: make([]Segment, 0, segments)}
}

// turns are matchings of n rows and columns with weights: match[s*n+i] is the
// column of row i in the one of weight weights[s].
type turns struct {
	n       int
	weights []int64
	match   []int32
}

// colourings is the ratio of unit matchings to rows up to which they are coloured one by
// one: weighted ones would not be fewer.
const colourings = 4

// decompose decomposes a matrix of n rows into matchings whose weights sum to its
// largest row or column sum. The next call overwrites them.
func (p *Planner) decompose(ctx context.Context, n int, x []int64) (turns, error) {
	if longest(n, x) > int64(colourings*n) {
		weights, match, err := p.decomposer.Decompose(ctx, n, x)
		return turns{n, weights, match}, err
	}
	padded, degree := bipartite.Pad(n, x, 0)
	p.arcs = bipartite.ArcsOf(n, padded, p.arcs[:0])
	match := resize(&p.match, n*int(degree))
	err := p.colourer.Arcs(ctx, n, int(degree), p.arcs, match)
	weights := resize(&p.weights, int(degree))
	for s := range weights {
		weights[s] = 1
	}
	return turns{n, weights, match}, err
}

// resize returns the slice with n elements of any content.
func resize[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}

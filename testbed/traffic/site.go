package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// lmc gives each host eight LIDs, which is enough for the lanes of FT(2;6,6) and
// FT(2;8,8).
const lmc = 3

// bed is a simulated fabric under OpenSM, with a fabric for data that follows it.
type bed struct {
	*e2e.Site
	data   *adapter.Fabric
	fabric *topology.Fabric // whose nodes the counters name
	follow *adapter.Follower
	o      options
}

// bring brings up a site and the fabric for its data; begin starts its routing.
func bring(ctx context.Context, o options, s e2e.Options, begin func(*e2e.Site) error) (b *bed, err error) {
	s.Fabric = fabgen.Generate(fabgen.Spec{Spines: o.n, Leaves: o.n, LMC: lmc})
	s.LMC = lmc
	b = &bed{o: o}
	if b.Site, err = e2e.New(ctx, s); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.end())
		}
	}()
	if err = begin(b.Site); err != nil {
		return nil, err
	}
	f, err := b.Fabric(ctx)
	if err != nil {
		return nil, err
	}
	b.fabric = f
	if b.data, err = adapter.Start(adapter.Options{Programs: o.dir, Fabric: f, Rate: o.rate, MTU: mtu}); err != nil {
		return nil, err
	}
	b.follow, err = b.data.Follow(ctx, b.Sim, host(0), b.SubnetFile())
	return b, err
}

func host(i int) string { return fmt.Sprintf("Hca%04d", i) }

func (b *bed) end() (err error) {
	if b.follow != nil {
		err = b.follow.Stop()
	}
	if b.data != nil {
		err = errors.Join(err, b.data.Close())
	}
	return errors.Join(err, b.Close())
}

// simulate counts the loads of a plan on tables, phase by phase; or, without a plan, those of
// a linear shift in the order of the hosts.
func simulate(f *topology.Fabric, tables *lft.Tables, plan *phasetable.View) (*sim.Result, error) {
	var rows []sim.Row
	if plan != nil {
		rows = sim.RowsOf(plan)
	} else {
		var hosts []topology.EndPort
		for _, e := range f.EndPorts() {
			if f.Nodes[e.Node].Kind == topology.Adapter {
				hosts = append(hosts, e)
			}
		}
		rows = sim.HostShift(hosts)
	}
	r, err := sim.Run(f, tables, rows)
	if err == nil && r.Lost > 0 {
		err = fmt.Errorf("tables lose %d transfers: %s", r.Lost, r.FirstLost)
	}
	return r, err
}

// minHop is OpenSM's own routing.
type minHop struct{ b *bed }

func (m minHop) settled(ctx context.Context, _ state) error { return m.b.SM.Sweep(ctx) }

func (m minHop) exchanges(context.Context) ([]exchange, error) {
	return []exchange{{name: "shift in step", way: "shift"}, {name: "MPI_Alltoall", way: "alltoall", loose: true}}, nil
}

func bringMinHop(ctx context.Context, o options) (*bed, error) {
	return bring(ctx, o, e2e.Options{Engine: "minhop"}, func(s *e2e.Site) error {
		if err := s.StartOpenSM(ctx); err != nil {
			return err
		}
		_, _, err := s.SM.WaitLog(ctx, ibsim.SubnetUp, 0)
		return err
	})
}

// measureMinHop measures on OpenSM's own tables.
func measureMinHop(ctx context.Context, o options) (all []measurement, err error) {
	b, err := bringMinHop(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	return b.measureAll(ctx, "min-hop", minHop{b})
}

// byForsd is forsd's routing, with MPI_Alltoall by its shim, and by lanes as well.
type byForsd struct{ b *bed }

func (r byForsd) settled(ctx context.Context, s state) error {
	_, err := r.b.Settled(ctx, r.b.shown(s))
	return err
}

func (r byForsd) exchanges(ctx context.Context) ([]exchange, error) {
	base, err := r.b.Client.BaseTable(ctx)
	if err != nil {
		return nil, err
	}
	pinned, err := r.b.Client.Table(ctx)
	if err != nil {
		return nil, err
	}
	status, err := r.b.Client.Status(ctx)
	if err != nil {
		return nil, err
	}
	o := r.b.o
	bound := float64(o.n*o.n-1) / float64(status.LowerBound)
	env := append(r.b.ranks(), "FORS_WAY=plan")
	lanes := append([]string{"LD_PRELOAD=" + o.shim + ":" + o.lanes, "FORS_LIDS=pinned"}, env...)
	return []exchange{{name: "by the plan", way: "alltoall", plan: base, bound: bound, env: append([]string{"LD_PRELOAD=" + o.shim}, env...)},
		{name: "on lanes", way: "alltoall", plan: pinned, bound: bound, env: lanes}}, nil
}

// ranks is what the shim has to know of a rank.
func (b *bed) ranks() []string {
	return []string{"FORSD_TABLE=unix:" + b.Socket(), "FORS_SERVER=Hca%4r"}
}

// bringForsd brings up a site that forsd routes.
func bringForsd(ctx context.Context, o options) (*bed, error) {
	return bring(ctx, o, e2e.Options{Forsd: o.forsd}, func(s *e2e.Site) error {
		if err := s.Start(ctx); err != nil {
			return err
		}
		_, err := s.Settled(ctx, nil)
		return err
	})
}

// measureForsd measures on the tables of forsd.
func measureForsd(ctx context.Context, o options) (all []measurement, err error) {
	b, err := bringForsd(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	return b.measureAll(ctx, "forsd", byForsd{b})
}

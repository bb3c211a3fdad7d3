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

// The cable that is pulled.
const (
	leaf = 1
	lane = 2
)

// bed is a simulated fabric under OpenSM, with a fabric for data that follows it.
type bed struct {
	*e2e.Site
	data   *adapter.Fabric
	follow *adapter.Follower
	o      options
}

// bring brings up a site and what carries its data; begin starts what routes it.
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

// pull pulls the cable.
func (b *bed) pull(ctx context.Context) error {
	return b.Sim.Unlink(ctx, fmt.Sprintf("Leaf%03d", leaf), b.o.n+1+lane)
}

// state is the fabric as it is, with its tables as they were read from the switches.
func (b *bed) state(ctx context.Context) (*topology.Fabric, *lft.Tables, error) {
	f, err := b.Fabric(ctx)
	if err != nil {
		return nil, nil, err
	}
	tables, err := b.ReadTables(ctx)
	return f, tables, err
}

// shift is the share of the links' throughput that a linear shift with a pause for all
// after each phase has on tables, in the order of the hosts.
func shift(f *topology.Fabric, tables *lft.Tables) (float64, error) {
	var hosts []topology.EndPort
	for _, e := range f.EndPorts() {
		if f.Nodes[e.Node].Kind == topology.Adapter {
			hosts = append(hosts, e)
		}
	}
	r, err := sim.Run(f, tables, sim.HostShift(hosts))
	if err != nil {
		return 0, err
	}
	if r.Lost > 0 {
		return 0, fmt.Errorf("tables lose %d transfers: %s", r.Lost, r.FirstLost)
	}
	return r.RelativeThroughput, nil
}

// planned is that of a plan for base LIDs.
func planned(f *topology.Fabric, tables *lft.Tables, plan *phasetable.View) (float64, error) {
	r, err := sim.Run(f, tables, sim.RowsOf(plan))
	if err != nil {
		return 0, err
	}
	return r.RelativeThroughput, nil
}

// minHop measures on OpenSM's own tables.
func minHop(ctx context.Context, o options) (all []measurement, err error) {
	b, err := bring(ctx, o, e2e.Options{Engine: "minhop"}, func(s *e2e.Site) error {
		if err := s.StartOpenSM(ctx); err != nil {
			return err
		}
		_, _, err := s.SM.WaitLog(ctx, ibsim.SubnetUp, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	return b.states(ctx, "min-hop", nil, func(ctx context.Context) (*phasetable.View, error) {
		return nil, b.SM.Sweep(ctx)
	})
}

// byForsd measures on the tables of forsd, MPI_Alltoall by its shim.
func byForsd(ctx context.Context, o options) (all []measurement, err error) {
	b, err := bring(ctx, o, e2e.Options{Forsd: o.forsd}, func(s *e2e.Site) error {
		if err := s.Start(ctx); err != nil {
			return err
		}
		_, err := s.Settled(ctx, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	shim := []string{"LD_PRELOAD=" + o.shim, "FORSD_TABLE=unix:" + b.Socket(), "FORS_SERVER=Hca%4r", "FORS_SYNC=1"}
	want := "full"
	return b.states(ctx, "forsd", shim, func(ctx context.Context) (*phasetable.View, error) {
		if _, err := b.Settled(ctx, e2e.Cable(leaf, lane, want)); err != nil {
			return nil, err
		}
		want = "missing"
		return b.Client.BaseTable(ctx)
	})
}

package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/topology"
)

// Engines are the routing engines of OpenSM that can carry a fat tree, as Run
// measures them.
var Engines = []string{"minhop", "updn", "ftree", "dfsssp"}

// Forsd is the engine of an Exchange by forsd's plan, on tables that OpenSM
// loaded by its engine file.
const Forsd = "forsd"

// Exchange is a complete exchange on tables that were read back from the
// switches of a simulated fabric under a real OpenSM: the linear shift on those
// of an engine of OpenSM, or forsd's plan on its own.
type Exchange struct {
	Engine string `json:"engine"` // asked for, or Forsd
	// Used is the engine that made the tables. It differs from Engine if that engine
	// refused the fabric and OpenSM fell back.
	Used   string `json:"used"`
	Phases int    `json:"phases"` // those with transfers
	// Duration is the sum over the phases of the transfers on the busiest link,
	// the completion time in units of an undisturbed transfer.
	Duration   int     `json:"duration"`
	Mean       float64 `json:"mean"` // Duration / Phases, 1 without conflicts
	Max        int     `json:"max"`  // transfers on a link in any phase
	Throughput float64 `json:"throughput"`
	Gbps       float64 `json:"model_gbps"`
	Lost       int     `json:"lost"` // transfers that do not arrive
}

// Refused reports whether OpenSM's engine refused to route the fabric.
func (x *Exchange) Refused() bool { return x.Engine != x.Used }

// measure measures a scenario by each engine, forsd's plan, and adaptive switches.
func (o *Options) measure(ctx context.Context, s *Scenario) ([]Exchange, error) {
	list := make([]Exchange, 0, len(o.Engines)+1)
	for _, engine := range append(o.Engines[:len(o.Engines):len(o.Engines)], Forsd) {
		o.step(s, engine)
		x, err := o.exchange(ctx, s, engine)
		if err != nil {
			return nil, fmt.Errorf("engine %s: %w", engine, err)
		}
		list = append(list, *x)
	}
	for _, a := range Adaptives {
		o.step(s, a.Name)
		x, err := o.adaptive(s, a)
		if err != nil {
			return nil, err
		}
		list = append(list, *x)
	}
	return list, nil
}

// exchange brings up the damaged fabric and an OpenSM of its own, so that no
// engine sees the tables that another one left in the switches.
func (o *Options) exchange(ctx context.Context, s *Scenario, engine string) (x *Exchange, err error) {
	fabric := o.Tree.Fabric(0)
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		return nil, err
	}
	s.Damage(o.Tree, fabric)
	by := e2e.Options{Fabric: fabric, Engine: engine}
	if engine == Forsd {
		by.Engine, by.LMC = "file,no_fallback", o.Tree.LMC()
	}
	err = e2e.OnOpenSM(ctx, by, func(ctx context.Context, site *e2e.Site) (err error) {
		if engine == Forsd {
			x, err = plan(ctx, site, base)
		} else {
			x, err = shift(ctx, site, base, engine)
		}
		return err
	})
	return x, err
}

// shift runs the linear shift on the tables of an engine. LMC 0 is OpenSM's
// default, and all that ftree accepts.
func shift(ctx context.Context, site *e2e.Site, base *topology.Baseline, engine string) (*Exchange, error) {
	used, err := e2e.EngineOf(site.SM)
	if err != nil {
		return nil, err
	}
	sight, err := site.LookBy(ctx, base)
	if err != nil {
		return nil, err
	}
	return run(sight.Tree, sight.Tables, sim.LinearShift(sight.Tree), engine, used)
}

// plan makes OpenSM load forsd's tables, and runs forsd's plan on the tables read back
// from the switches.
func plan(ctx context.Context, site *e2e.Site, base *topology.Baseline) (*Exchange, error) {
	before, err := site.LookBy(ctx, base)
	if err != nil {
		return nil, err
	}
	made, err := planner.Make(ctx, before.Tree, anyPlan)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = made.Tables.Write(&text, lft.OwnersOf(before.Tree.Fabric))
	if err := errors.Join(err, os.WriteFile(site.TableFile(), text.Bytes(), 0o644)); err != nil {
		return nil, err
	}
	if err := site.SM.Sweep(ctx); err != nil {
		return nil, err
	}
	sight, err := site.LookBy(ctx, base)
	if err != nil {
		return nil, err
	}
	if err := lft.Compare(made.Tables, sight.Tables, lft.LIDs(sight.Tree.Fabric)); err != nil {
		return nil, fmt.Errorf("tables read back: %w", err)
	}
	if err := made.Check(sight.Tables); err != nil {
		return nil, fmt.Errorf("on tables read back: %w", err)
	}
	rows, err := sim.RowsOfTable(made.Table(0))
	if err != nil {
		return nil, err
	}
	return run(sight.Tree, sight.Tables, rows, Forsd, Forsd)
}

// run simulates an exchange.
func run(t *topology.FatTree, tables *lft.Tables, rows []sim.Row, engine, used string) (*Exchange, error) {
	r, err := sim.Run(t.Fabric, tables, rows)
	if err != nil {
		return nil, err
	}
	x := &Exchange{Engine: engine, Used: used, Mean: r.Mean, Max: r.Max, Throughput: r.RelativeThroughput, Lost: r.Lost, Duration: r.Duration()}
	for _, most := range r.PerPhaseMax {
		if most > 0 {
			x.Phases++
		}
	}
	x.Gbps = Gbps(r.Servers, x.Phases, x.Duration)
	return x, nil
}

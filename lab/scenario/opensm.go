package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/ibsim"
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

// measureLimit bounds one exchange on OpenSM.
const measureLimit = 2 * time.Minute

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
	err = onOpenSM(ctx, by, func(ctx context.Context, site *e2e.Site) (err error) {
		if engine == Forsd {
			x, err = plan(ctx, site, base)
		} else {
			x, err = shift(ctx, site, base, engine)
		}
		return err
	})
	return x, err
}

// onOpenSM does something on a fabric that OpenSM has just brought up from a cold start.
func onOpenSM(ctx context.Context, o e2e.Options, do func(context.Context, *e2e.Site) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, measureLimit, fmt.Errorf("it took longer than %v", measureLimit))
	defer cancel()
	site, err := e2e.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	if err := errors.Join(os.MkdirAll(filepath.Dir(site.TableFile()), 0o755), os.WriteFile(site.TableFile(), nil, 0o644)); err != nil {
		return err
	}
	if err := site.StartOpenSM(ctx); err != nil {
		return err
	}
	if _, _, err := site.SM.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		return err
	}
	return do(ctx, site)
}

// shift runs the linear shift on the tables of an engine. LMC 0 is OpenSM's
// default, and all that ftree accepts.
func shift(ctx context.Context, site *e2e.Site, base *topology.Baseline, engine string) (*Exchange, error) {
	used, err := usedBy(site.SM)
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

// usedBy is the engine from which OpenSM reports that it has taken the tables.
func usedBy(sm *ibsim.OpenSM) (string, error) {
	log, err := sm.Log()
	if err != nil {
		return "", err
	}
	used := ""
	for line := range strings.Lines(string(log)) {
		if e, ok := opensm.ClassifyLog(line); ok && e.Kind == opensm.EngineUsed {
			used = e.Engine
		}
	}
	if used == "" {
		return "", fmt.Errorf("%s does not say which routing engine made the tables: this OpenSM words it differently", sm.LogFile())
	}
	return used, nil
}

// Routed has an OpenSM bring a fabric up by an engine, from a cold start. It returns the
// fabric as OpenSM sees it, the tables in the switches, and the engine that made them.
func Routed(ctx context.Context, f *topology.Fabric, engine string) (seen *topology.Fabric, tables *lft.Tables, used string, err error) {
	err = onOpenSM(ctx, e2e.Options{Fabric: f, Engine: engine}, func(ctx context.Context, site *e2e.Site) (err error) {
		if used, err = usedBy(site.SM); err != nil {
			return err
		}
		if seen, err = site.Fabric(ctx); err != nil {
			return err
		}
		tables, err = site.ReadTables(ctx)
		return err
	})
	return seen, tables, used, err
}

package scenario

import (
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
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
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
	// Used is the engine that made the tables. It differs from Engine where that
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

// Refused tells whether OpenSM's engine would not route the fabric.
func (x *Exchange) Refused() bool { return x.Engine != x.Used }

// measureLimit bounds one exchange on OpenSM.
const measureLimit = 2 * time.Minute

// measure measures a scenario by each engine, and forsd's plan.
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
	return list, nil
}

// exchange brings up the damaged fabric and an OpenSM of its own, so that no
// engine sees what another one left in the switches.
func (o *Options) exchange(ctx context.Context, s *Scenario, engine string) (x *Exchange, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, measureLimit, fmt.Errorf("it took longer than %v", measureLimit))
	defer cancel()
	fabric := o.Tree.Fabric(0)
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		return nil, err
	}
	s.Damage(o.Tree, fabric)
	simulation, err := ibsim.Start(ctx, ibsim.Options{Fabric: fabric})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, simulation.Close()) }()
	b := &bed{sim: simulation, base: base}
	if engine == Forsd {
		return b.plan(ctx, o.Tree.LMC())
	}
	return b.shift(ctx, engine)
}

// host is where OpenSM and the tools run: the first server.
const host = "Hca0000"

// bed is a simulated fabric with its OpenSM.
type bed struct {
	sim  *ibsim.Sim
	sm   *ibsim.OpenSM
	base *topology.Baseline // of the undamaged fabric
}

// start starts OpenSM and waits for the end of its first sweep.
func (b *bed) start(ctx context.Context, o ibsim.OpenSMOptions) (err error) {
	o.Host = host
	if b.sm, err = b.sim.StartOpenSM(ctx, o); err != nil {
		return err
	}
	_, _, err = b.sm.WaitLog(ctx, ibsim.SubnetUp, 0)
	return err
}

// shift runs the linear shift on the tables of an engine. LMC 0 is OpenSM's
// default, and all that ftree accepts.
func (b *bed) shift(ctx context.Context, engine string) (*Exchange, error) {
	if err := b.start(ctx, ibsim.OpenSMOptions{RoutingEngine: engine}); err != nil {
		return nil, err
	}
	used, err := b.used()
	if err != nil {
		return nil, err
	}
	tree, tables, err := b.look(ctx)
	if err != nil {
		return nil, err
	}
	return run(tree, tables, sim.LinearShift(tree), engine, used)
}

// plan has OpenSM load forsd's tables, and runs forsd's plan on what the switches
// then hold.
func (b *bed) plan(ctx context.Context, lmc uint8) (*Exchange, error) {
	file := filepath.Join(b.sim.Dir(), "lfts.dump")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return nil, err
	}
	if err := b.start(ctx, ibsim.OpenSMOptions{LMC: lmc, RoutingEngine: "file,no_fallback", LFTsFile: file}); err != nil {
		return nil, err
	}
	tree, err := b.tree()
	if err != nil {
		return nil, err
	}
	made, err := planner.Make(ctx, tree, anyPlan)
	if err != nil {
		return nil, err
	}
	if err := load(ctx, b.sm, made.Tables, file, tree.Fabric); err != nil {
		return nil, err
	}
	tree, tables, err := b.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := lft.Compare(made.Tables, tables, lft.LIDs(tree.Fabric)); err != nil {
		return nil, fmt.Errorf("tables read back: %w", err)
	}
	if err := made.Check(tables); err != nil {
		return nil, fmt.Errorf("on tables read back: %w", err)
	}
	return run(tree, tables, transfers(tree, &made.Rows), Forsd, Forsd)
}

// load writes the table file and has OpenSM program it.
func load(ctx context.Context, sm *ibsim.OpenSM, tables *lft.Tables, path string, f *topology.Fabric) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(tables.Write(file, lft.OwnersOf(f)), file.Close()); err != nil {
		return err
	}
	return sm.Sweep(ctx)
}

// transfers are the rows of a plan by GUID.
func transfers(t *topology.FatTree, rows *verify.Rows) []sim.Row {
	servers := len(t.Servers)
	guid := make([]topology.GUID, servers)
	for i, h := range t.Servers {
		guid[i] = t.Hosts[h].GUID
	}
	list := make([]sim.Row, 0, servers*(servers-1))
	for p := range rows.Phases {
		for s, d := range rows.To[p*servers : (p+1)*servers] {
			if d >= 0 {
				list = append(list, sim.Row{Phase: int32(p), DLID: rows.DLID[p*servers+s], Src: guid[s], Dst: guid[d]})
			}
		}
	}
	return list
}

// run simulates an exchange.
func run(t *topology.FatTree, tables *lft.Tables, rows []sim.Row, engine, used string) (*Exchange, error) {
	r, err := sim.Run(t.Fabric, tables, rows)
	if err != nil {
		return nil, err
	}
	x := &Exchange{Engine: engine, Used: used, Mean: r.Mean, Max: r.Max, Throughput: r.RelativeThroughput, Lost: r.Lost}
	for _, most := range r.PerPhaseMax {
		if most > 0 {
			x.Phases++
			x.Duration += most
		}
	}
	x.Gbps = Gbps(r.Servers, x.Phases, x.Duration)
	return x, nil
}

// used is the engine that OpenSM says it has taken the tables from.
func (b *bed) used() (string, error) {
	log, err := b.sm.Log()
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
		return "", fmt.Errorf("%s does not say which routing engine made the tables: this OpenSM words it differently", b.sm.LogFile())
	}
	return used, nil
}

// look reads the fabric out of OpenSM's files and the tables out of the switches.
func (b *bed) look(ctx context.Context) (*topology.FatTree, *lft.Tables, error) {
	tree, err := b.tree()
	if err != nil {
		return nil, nil, err
	}
	tables, err := b.read(ctx)
	return tree, tables, err
}

// read reads the tables out of the switches.
func (b *bed) read(ctx context.Context) (*lft.Tables, error) {
	text, err := b.sim.Run(ctx, host, "dump_fts", "-n")
	if err != nil {
		return nil, err
	}
	return lft.ReadBytes(text)
}

// Routed has an OpenSM bring a fabric up by an engine, from a cold start. It returns the
// fabric as OpenSM sees it, the tables in the switches, and the engine that made them.
func Routed(ctx context.Context, f *topology.Fabric, engine string) (seen *topology.Fabric, tables *lft.Tables, used string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, measureLimit, fmt.Errorf("it took longer than %v", measureLimit))
	defer cancel()
	simulation, err := ibsim.Start(ctx, ibsim.Options{Fabric: f})
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, simulation.Close()) }()
	b := &bed{sim: simulation}
	if err := b.start(ctx, ibsim.OpenSMOptions{RoutingEngine: engine}); err != nil {
		return nil, nil, "", err
	}
	if used, err = b.used(); err != nil {
		return nil, nil, "", err
	}
	if seen, err = b.fabric(); err != nil {
		return nil, nil, "", err
	}
	tables, err = b.read(ctx)
	return seen, tables, used, err
}

// tree is the fabric as OpenSM dumped it, with servers and lanes numbered as on the
// undamaged one.
func (b *bed) tree() (*topology.FatTree, error) {
	f, err := b.fabric()
	if err != nil {
		return nil, err
	}
	return topology.Fit(f, b.base, nil)
}

// fabric is the one that OpenSM dumped at the end of the sweep.
func (b *bed) fabric() (*topology.Fabric, error) {
	dump, err := os.ReadFile(filepath.Join(b.sm.Dir(), "opensm-subnet.lst"))
	if err != nil {
		return nil, err
	}
	f, err := topology.ReadSubnetLst(dump)
	if err != nil {
		return nil, err
	}
	lids, err := os.ReadFile(filepath.Join(b.sm.Dir(), "guid2lid"))
	if err != nil {
		return nil, err
	}
	ranges, err := topology.ReadGUID2LID(lids)
	if err != nil {
		return nil, err
	}
	return f, f.ApplyGUID2LID(ranges)
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Sight is the site as seen without forsd: the fabric by OpenSM's own files and the
// tables by the switches' answers. Only the numbering of lanes and hosts comes from
// forsd's baseline.
type Sight struct {
	Tree   *topology.FatTree // of three levels, PodTree.Exchange
	Pods   *topology.PodTree // of three levels; nil of two
	Tables *lft.Tables       // read out of the switches
	Dump   []byte            // the same as dump_fts has printed it

	// Outside and Entries are fabric and tables in the form of the judge, which has accepted
	// the site; nil before Check.
	Outside *judge.Fabric
	Entries judge.Tables
}

// Look takes a sight.
func (s *Site) Look(ctx context.Context) (*Sight, error) {
	f, err := s.Fabric(ctx)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(s.StateDir(), "baseline.json"))
	if err != nil {
		return nil, err
	}
	base, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, err
	}
	return s.through(ctx, f, base)
}

// LookBy takes a sight by a given baseline, if forsd has none.
func (s *Site) LookBy(ctx context.Context, base *topology.Baseline) (*Sight, error) {
	f, err := s.Fabric(ctx)
	if err != nil {
		return nil, err
	}
	return s.through(ctx, f, base)
}

// through sees the fabric through a baseline, and reads the tables.
func (s *Site) through(ctx context.Context, f *topology.Fabric, base *topology.Baseline) (*Sight, error) {
	tree, err := Fit(f, base)
	if err != nil {
		return nil, err
	}
	sight := &Sight{Tree: tree, Pods: tree.Pods}
	if sight.Dump, err = s.dumpTables(ctx); err != nil {
		return nil, err
	}
	sight.Tables, err = lft.ReadBytes(sight.Dump)
	return sight, err
}

// Fit sees a fabric through a baseline of two or three levels.
func Fit(f *topology.Fabric, base *topology.Baseline) (*topology.FatTree, error) {
	if base.Pods == nil {
		return topology.Fit(f, base, nil)
	}
	t, err := topology.FitPods(f, base.Pods, nil)
	if err != nil {
		return nil, err
	}
	return t.Exchange(), nil
}

// Fabric reads OpenSM's dump, and again if OpenSM is just writing it.
func (s *Site) Fabric(ctx context.Context) (f *topology.Fabric, err error) {
	err = s.Until(ctx, func() error {
		dump, err := os.ReadFile(s.SubnetFile())
		if err != nil {
			return err
		}
		if f, err = topology.ReadSubnetLst(dump); err != nil {
			return err
		}
		lids, err := os.ReadFile(filepath.Join(s.ManagerDir(), "guid2lid"))
		if err != nil {
			return err
		}
		ranges, err := topology.ReadGUID2LID(lids)
		if err != nil {
			return err
		}
		return f.ApplyGUID2LID(ranges)
	})
	return f, err
}

// dumped waits until OpenSM's dump is that of the fabric that forsd sees: with the plugin, forsd
// learns of a sweep's end before OpenSM writes the dump.
func (s *Site) dumped(ctx context.Context) error {
	return s.Until(ctx, func() error {
		f, err := s.Fabric(ctx)
		if err != nil {
			return err
		}
		t, err := s.Client.Topology(ctx)
		if err == nil && t.Hash != f.Hash() {
			err = errors.New("OpenSM's dump is not that of the fabric which forsd sees")
		}
		return err
	})
}

// ReadTables reads the tables out of the switches.
func (s *Site) ReadTables(ctx context.Context) (*lft.Tables, error) {
	text, err := s.dumpTables(ctx)
	if err != nil {
		return nil, err
	}
	return lft.ReadBytes(text)
}

// dumpTables has dump_fts print the tables.
func (s *Site) dumpTables(ctx context.Context) ([]byte, error) { return s.tool(ctx, "dump_fts", "-n") }

// tool runs a diagnostic tool, and again if ibsim has not answered it at all.
func (s *Site) tool(ctx context.Context, name string, args ...string) (text []byte, err error) {
	text, err = s.Sim.Run(ctx, s.options.Host, name, args...)
	for tries := 1; err != nil && tries < 3 && strings.Contains(err.Error(), "Failed to resolve self"); tries++ {
		text, err = s.Sim.Run(ctx, s.options.Host, name, args...)
	}
	return text, err
}

// Check checks that the site fulfils forsd's promises for a site at rest: the switches hold
// exactly the tables that belong to the fabric, those fulfil invariant 3, every LID is reached
// from every leaf that shares a spine with its owner, and the plans that the API hands out, the
// one for base LIDs too, fulfil invariant 1 on them. A LID that dump_fts cannot read counts as
// planned.
//
// If forsd has made another change during the check, for a cable that is well again for
// instance, the readings are of different moments: Check is repeated when forsd is at rest.
func (s *Site) Check(ctx context.Context) (*Sight, error) {
	for {
		before, err := s.moment(ctx)
		if err != nil {
			return nil, err
		}
		sight, err := s.check(ctx)
		if err == nil {
			return sight, nil
		}
		if after, e := s.moment(ctx); e != nil || after == before {
			return nil, err
		}
		if _, e := s.Settled(ctx, nil); e != nil {
			return nil, errors.Join(err, e)
		}
	}
}

// moment identifies the plans in force at a time.
func (s *Site) moment(ctx context.Context) (string, error) {
	st, err := s.Client.Status(ctx)
	if err != nil {
		return "", err
	}
	base := uint64(0)
	if st.Base != nil {
		base = st.Base.Epoch
	}
	return fmt.Sprint(st.Epoch, base, st.LastEvent, st.OpenSM.TablesMatch), nil
}

func (s *Site) check(ctx context.Context) (*Sight, error) {
	if err := s.dumped(ctx); err != nil {
		return nil, err
	}
	var sight *Sight
	var mostBase int
	as := func() (err error) {
		sight, mostBase, err = s.asPlanned(ctx)
		return err
	}
	err := as()
	if err != nil && sight != nil && sight.Pods != nil { // a new plan may come after the one at once
		err = s.Until(ctx, as)
	}
	if err != nil {
		return nil, err
	}
	if err := verify.TablesByRank(sight.Tree.Fabric, sight.Tree.Rank, sight.Tables); err != nil {
		return nil, fmt.Errorf("tables read back: %w", err)
	}
	plan, err := s.Client.Table(ctx)
	if err != nil {
		return nil, err
	}
	if err := sight.CheckPlan(plan); err != nil {
		return nil, fmt.Errorf("epoch %d on the tables read back: %w", plan.Epoch(), err)
	}
	if mostBase > 0 {
		base, err := s.Client.BaseTable(ctx)
		if err != nil {
			return nil, fmt.Errorf("the plan for base LIDs: %w", err)
		}
		if err := sight.CheckPlan(base); err != nil {
			return nil, fmt.Errorf("base plan %d on the tables read back: %w", base.Epoch(), err)
		}
		st, err := s.Client.Status(ctx)
		if err != nil {
			return nil, err
		}
		if base.Phases() > mostBase && !HasWarning(st, planner.BaseLIDsCrowded) {
			return nil, fmt.Errorf("base plan %d has %d phases, want %d or fewer, or a warning", base.Epoch(), base.Phases(), mostBase)
		}
	}
	sight.Outside, sight.Entries, err = s.Judged(ctx, sight.Dump)
	return sight, err
}

// asPlanned takes a sight, and compares the tables with those that forsd should have in the end.
// It returns the most phases that the plan for base LIDs may have, 0 without such a plan.
//
// On two levels base LIDs keep lanes of the previous plan, which was perhaps in force for moments
// and which only forsd knows. If the tables follow from no plan seen here, they must be those
// that forsd has ordered; and the plan must be as good as one made now, except for the price of
// keeping lanes, unless forsd warns that it is longer.
func (s *Site) asPlanned(ctx context.Context) (sight *Sight, mostBase int, err error) {
	if sight, err = s.Look(ctx); err != nil {
		return nil, 0, err
	}
	if err := s.hold(ctx, sight.Tree); err != nil {
		return sight, 0, err
	}
	base := s.lastBase(ctx)
	planned := func(before *phasetable.View) (want *lft.Tables, err error) {
		want, mostBase, err = sight.want(ctx, before)
		return want, err
	}
	wanted := []func() (*lft.Tables, error){func() (*lft.Tables, error) { return planned(base) }}
	if sight.Pods == nil && base != nil {
		ordered := func() (*lft.Tables, error) {
			text, err := os.ReadFile(s.TableFile())
			if err != nil {
				return nil, err
			}
			return lft.ReadBytes(text)
		}
		wanted = append(wanted, func() (*lft.Tables, error) { return planned(s.base) }, ordered)
	}
	for _, by := range wanted {
		want, e := by()
		if e != nil {
			return sight, 0, e
		}
		lft.FillUnread(sight.Tables, want)
		if err = lft.Compare(want, sight.Tables, lft.LIDs(sight.Tree.Fabric)); err == nil {
			s.base = base
			if sight.Pods == nil {
				mostBase += mostBase * keepPercent / 100
			}
			return sight, mostBase, nil
		}
	}
	return sight, 0, fmt.Errorf("tables read back: %w", err)
}

// keepPercent is how much longer a plan for base LIDs that keeps lanes may be.
const keepPercent = 6

// hold takes out of the tree's schedules the parts that forsd reports as kept out of the plan:
// cables, and the hosts of drained leaves.
func (s *Site) hold(ctx context.Context, t *topology.FatTree) error {
	all, err := s.Client.Cables(ctx)
	if err != nil {
		return err
	}
	for _, c := range all.Cables {
		leaf := slices.IndexFunc(t.Leaves, func(l topology.Leaf) bool { return l.GUID == c.Leaf.GUID })
		if c.Held && leaf >= 0 {
			t.Hold(leaf, c.Lane)
		}
	}
	drains, err := s.Client.Drains(ctx)
	if err != nil {
		return err
	}
	for i := range t.Hosts {
		h := &t.Hosts[i]
		out := func(d api.Drain) bool {
			return d.Kind == "leaf" && d.State != "scheduled" && d.GUID == t.Leaves[h.Leaf].GUID
		}
		if h.Leaf >= 0 && slices.ContainsFunc(drains, out) {
			h.Server, h.Out = false, true
		}
	}
	t.Servers = slices.DeleteFunc(t.Servers, func(i int) bool { return t.Hosts[i].Out })
	return nil
}

// lastBase is the plan for base LIDs in force, whose lanes forsd keeps; nil without one.
func (s *Site) lastBase(ctx context.Context) *phasetable.View {
	base, err := s.Client.BaseTable(ctx)
	if err != nil {
		return nil
	}
	return base
}

// want returns the tables that the switches should hold, and how many phases the plan for base
// LIDs should have, 0 without such a plan, given the plan for base LIDs in force.
func (s *Sight) want(ctx context.Context, base *phasetable.View) (tables *lft.Tables, basePhases int, err error) {
	if s.Pods != nil {
		made, err := podplan.Make(ctx, s.Pods, podplan.Settings{})
		if err != nil {
			return nil, 0, err
		}
		if made.Base != nil {
			basePhases = made.Base.Plan.Phases()
		}
		return made.Tables, basePhases, nil
	}
	made, err := planner.Route(ctx, s.Tree, planner.Settings{Before: base, Tables: s.Tables})
	if err != nil {
		return nil, 0, err
	}
	if made.Base != nil {
		basePhases = made.Base.Plan.Phases
	}
	return made.Tables, basePhases, nil
}

// CheckPlan verifies a published plan on the tables in sight.
func (s *Sight) CheckPlan(plan *phasetable.View) error {
	if s.Pods != nil {
		return podplan.Holds(context.Background(), s.Pods, s.Tables, plan)
	}
	rows, err := s.rows(plan)
	if err != nil {
		return err
	}
	return verify.Plan(s.Tree, s.Tables, rows, planner.Unreachable(s.Tree, rows))
}

// CheckJob verifies the plan of a job, whose servers are some of those in sight.
func (s *Sight) CheckJob(plan *phasetable.View) error {
	var members []ib.GUID
	for n := range plan.Servers() {
		members = append(members, plan.Server(n).GUID)
	}
	return (&Sight{Tree: planner.Restrict(s.Tree, members), Tables: s.Tables}).CheckPlan(plan)
}

// rows are the rows of a published plan in the order of the tree's servers.
func (s *Sight) rows(plan *phasetable.View) (verify.Rows, error) {
	rows := verify.NewRows(len(s.Tree.Servers), plan.Phases())
	index := make(map[ib.GUID]int, len(s.Tree.Servers))
	for i, h := range s.Tree.Servers {
		index[s.Tree.Hosts[h].GUID] = i
	}
	number := make([]int, plan.Servers()) // [server of the plan] index in the tree
	for n := range number {
		entry := plan.Server(n)
		i, ok := index[entry.GUID]
		if !ok {
			return rows, fmt.Errorf("%s (%s) is in the plan, and not among the servers", entry.Name, entry.GUID)
		}
		number[n] = i
	}
	for n := range number {
		row := plan.Row(n)
		for p := range row.Len() {
			e := row.At(p)
			if e.SendTo == phasetable.Idle {
				continue
			}
			if err := rows.Put(s.Tree, p, number[n], number[e.SendTo], int16(e.Lane), e.DLID); err != nil {
				return rows, err
			}
			if back := plan.Row(e.SendTo).At(p).RecvFrom; back != n {
				return rows, fmt.Errorf("phase %d: server %d sends to %d, which expects %d", p, n, e.SendTo, back)
			}
		}
	}
	return rows, nil
}

// Unmoved compares the entries of both sights for every host that they share
// under the same LIDs, except for the LIDs of some lanes, and the entries at
// those lanes' own spines: it names the first that differs.
func (s *Sight) Unmoved(later *Sight, lanes ...int) error {
	exempt := make(map[ib.GUID]bool)
	for _, k := range lanes {
		exempt[s.Tree.Spines[s.Tree.LaneOf[k]].GUID] = true
	}
	hosts := make(map[ib.GUID]*topology.Host)
	for i := range later.Tree.Hosts {
		hosts[later.Tree.Hosts[i].GUID] = &later.Tree.Hosts[i]
	}
	compared := 0
	for i := range s.Tree.Hosts {
		h := &s.Tree.Hosts[i]
		now := hosts[h.GUID]
		if now == nil || h.Leaf < 0 {
			continue
		}
		if now.LID != h.LID || now.Leaf != h.Leaf || now.Alpha != h.Alpha {
			return fmt.Errorf("%s had LID %d, leaf %d, index %d and has LID %d, leaf %d, index %d", h.Name, h.LID, h.Leaf, h.Alpha, now.LID, now.Leaf, now.Alpha)
		}
		for j := range 1 << h.LMC {
			if slices.Contains(lanes, s.Tree.LIDLane(h, j)) {
				continue
			}
			n, err := s.sameEntries(later, h.LID+ib.LID(j), exempt)
			if err != nil {
				return fmt.Errorf("%s, lane %d: %w", h.Name, s.Tree.LIDLane(h, j), err)
			}
			compared += n
		}
	}
	if compared == 0 {
		return errors.New("no entry could be compared")
	}
	return nil
}

// sameEntries compares the entries of a LID and counts them.
func (s *Sight) sameEntries(later *Sight, lid ib.LID, exempt map[ib.GUID]bool) (compared int, err error) {
	for i := range s.Tables.Switches {
		sw := &s.Tables.Switches[i]
		j := later.Tables.Find(sw.GUID)
		if j < 0 || exempt[sw.GUID] {
			continue
		}
		if was, is := s.Tables.Port(i, lid), later.Tables.Port(j, lid); was != is {
			return compared, fmt.Errorf("the entry of switch %s for LID %d changed from port %d to port %d", sw.GUID, lid, was, is)
		}
		compared++
	}
	return compared, nil
}

// Stored reads the epoch in force as forsd's state directory holds it: the
// highest number there, which must be whole. It is nil before the first.
func (s *Site) Stored() (*phasetable.View, error) {
	dir := filepath.Join(s.StateDir(), "epochs")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	last, name := uint64(0), ""
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && n > last {
			last, name = n, e.Name()
		}
	}
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(dir, name, "phases.bin"))
	if err != nil {
		return nil, err
	}
	view, err := phasetable.Decode(data)
	if err == nil && view.Epoch() != last {
		err = fmt.Errorf("it is the table of epoch %d", view.Epoch())
	}
	if err != nil {
		return nil, fmt.Errorf("stored epoch %d: %w", last, err)
	}
	return view, nil
}

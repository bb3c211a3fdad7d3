package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

var (
	poller = sync.OnceValues(func() (string, error) { return built.Program(context.Background(), programDir, "testbed/e2e/poll") })
	plugin = sync.OnceValues(func() (string, error) { return BuildPlugin(context.Background(), programDir) })
)

// byPlugin makes a site's OpenSM load the plugin. The machine may be busy, so its
// sweeps wait for forsd as long as possible.
func byPlugin(t *testing.T, o Options) Options {
	t.Helper()
	if _, err := os.Stat(openSMHeader); err != nil {
		t.Skipf("building the plugin takes libopensm-dev: %v", err)
	}
	var err error
	if o.Plugin, err = plugin(); err != nil {
		t.Fatal(err)
	}
	o.Deadline = 10 * time.Second
	return o
}

// openSMHeader belongs to libopensm-dev.
const openSMHeader = "/usr/include/infiniband/opensm/osm_event_plugin.h"

// TestPolled pulls cables and puts them back while a process reads all tables
// without pause. The plan in force holds on all of them, except for the time from a
// pull to the plan that follows; and the entries of a lane that lives never change.
// With FORS_LONG=1 it takes 20 cables of the LHCb fabric.
func TestPolled(t *testing.T) {
	if _, err := os.Stat(built.UmadHeader); err != nil {
		t.Skipf("the switches cannot be polled here: install libibumad-dev: %v", err)
	}
	o, pulls := Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 6}), LMC: 3}, 4
	if long {
		o, pulls = lhcb(), 20
	}
	t.Run("files", func(t *testing.T) { polled(t, pulls, o) })
	t.Run("plugin", func(t *testing.T) { polled(t, pulls, byPlugin(t, o)) })
}

// moment is when a cable was pulled or put back.
type moment struct {
	at   time.Time
	gone bool
	lane int               // −1 at the beginning
	tree *topology.FatTree // since then
}

func polled(t *testing.T, pulls int, o Options) {
	x, healthy := up(t, 10*time.Minute, o)
	program, err := poller()
	x.ok(err)
	tree := healthy.Tree
	p, err := x.Poll(program, tree.Hosts[len(tree.Hosts)-1].Name)
	x.ok(err)
	j := onlooker{test: x, moments: []moment{{at: time.Now(), lane: -1, tree: tree}}, tables: p.First, lanes: lanesOf(tree), read: map[ib.GUID]time.Time{}}
	for n := range pulls {
		// Neither the poller's own leaf nor the spine on its paths.
		leaf, lane := n%(len(tree.Leaves)-1), 1+3*n%(tree.Lanes-1)
		at := tree.Leaves[leaf]
		port := at.Cables[lane].LeafPort
		without := tree.Fabric.Clone()
		without.Disconnect(topology.PortRef{Node: at.Node, Port: port})
		less, err := topology.Fit(without, tree.Baseline, nil)
		x.ok(err)

		j.moments = append(j.moments, moment{time.Now(), true, lane, less})
		x.ok(x.Sim.Unlink(x.ctx, at.Name, int(port)))
		x.settled(Cable(leaf, lane, "missing"))
		j.takePlans()
		j.moments = append(j.moments, moment{time.Now(), false, lane, tree})
		x.ok(x.Sim.Relink(x.ctx, at.Name, int(port)))
		x.settled(Cable(leaf, lane, "full"))
		j.takePlans()
	}
	rounds, err := p.Stop()
	x.ok(err)
	x.unmoved(healthy, x.check())
	for _, r := range rounds {
		j.round(r)
	}
	j.report(len(rounds), pulls)
}

// published is a stored epoch.
type published struct {
	at   time.Time
	view *phasetable.View
}

// takePlans reads the epochs that are new; forsd does not keep all of them.
func (j *onlooker) takePlans() {
	j.Helper()
	dirs, err := filepath.Glob(filepath.Join(j.StateDir(), "epochs", "[0-9]*"))
	j.ok(err)
	slices.Sort(dirs) // by number, which has leading zeros
	last := uint64(0)
	if n := len(j.plans); n > 0 {
		last = j.plans[n-1].view.Epoch()
	}
	for _, dir := range dirs {
		number, err := strconv.ParseUint(filepath.Base(dir), 10, 64)
		j.ok(err)
		if number <= last {
			continue
		}
		var about struct {
			PublishedAt time.Time `json:"published_at"`
		}
		text, e1 := os.ReadFile(filepath.Join(dir, "epoch.json"))
		table, e2 := os.ReadFile(filepath.Join(dir, "phases.bin"))
		j.ok(e1, e2, json.Unmarshal(text, &about))
		view, err := phasetable.Decode(table)
		j.ok(err)
		j.plans = append(j.plans, published{about.PublishedAt, view})
	}
}

// lanesOf is the lane of every LID of a host.
func lanesOf(tree *topology.FatTree) map[ib.LID]int {
	lanes := map[ib.LID]int{}
	for i := range tree.Hosts {
		h := &tree.Hosts[i]
		for j := range 1 << h.LMC {
			lanes[h.LID+ib.LID(j)] = tree.LIDLane(h, j)
		}
	}
	return lanes
}

// onlooker judges the tables that were polled.
type onlooker struct {
	*test
	moments []moment
	plans   []published
	tables  *lft.Tables // as of the round judged last
	lanes   map[ib.LID]int
	read    map[ib.GUID]time.Time // when the reading of a switch that was judged last began

	checked  [2]int // moment and plan that the tables were found to fit last
	verified int    // tables
	changed  int    // entries
}

// round takes in a round's changes, and verifies the plan in force on the present fabric.
func (j *onlooker) round(r Round) {
	j.Helper()
	for _, c := range r.Changes {
		j.changed++
		j.tables.Switches[j.tables.Find(c.Switch)].Out[c.LID] = c.Is
		if lane, host := j.lanes[c.LID]; host && !j.mayChange(c.Switch, lane, r.End) {
			j.Errorf("the entry of switch %s for LID %d of lane %d went from port %d to port %d, though that lane lives", c.Switch, c.LID, lane, c.Was, c.Is)
		}
	}
	for i := range j.tables.Switches {
		if g := j.tables.Switches[i].GUID; !slices.Contains(r.Missing, g) {
			j.read[g] = r.Start
		}
	}
	m := latest(len(j.moments), func(i int) bool { return !j.moments[i].at.After(r.Start) })
	e := latest(len(j.plans), func(i int) bool { return !j.plans[i].at.After(r.Start) })
	if len(r.Missing) > 0 || e < 0 || m < 0 || m+1 < len(j.moments) && j.moments[m+1].at.Before(r.End) || e+1 < len(j.plans) && j.plans[e+1].at.Before(r.End) {
		j.checked = [2]int{} // the changes of the round have not been checked yet
		return
	}
	if j.moments[m].gone && j.plans[e].at.Before(j.moments[m].at) {
		return // the ranks have not got the new plan yet
	}
	if id := [2]int{m + 1, e + 1}; id != j.checked || len(r.Changes) > 0 {
		j.checked = id
		j.verified++
		sight := &Sight{Tree: j.moments[m].tree, Tables: j.tables}
		if err := sight.CheckPlan(j.plans[e].view); err != nil {
			j.Errorf("%v after %s, epoch %d: %v", r.End.Sub(j.moments[m].at), name(j.moments[m]), j.plans[e].view.Epoch(), err)
		}
	}
}

// mayChange reports whether a lane's entries in a switch may have changed since the switch was
// read last: its cable was pulled or put back, or the switch is the spine of such a cable.
func (j *onlooker) mayChange(at ib.GUID, lane int, until time.Time) bool {
	from := max(0, latest(len(j.moments), func(i int) bool { return !j.moments[i].at.After(j.read[at]) }))
	return slices.ContainsFunc(j.moments[from:], func(m moment) bool {
		return m.lane >= 0 && !m.at.After(until) && (m.lane == lane || m.tree.Spines[m.tree.LaneOf[m.lane]].GUID == at)
	})
}

func name(m moment) string {
	return fmt.Sprintf("lane %d's cable changed (gone: %v)", m.lane, m.gone)
}

// latest is the last index that is good, or −1.
func latest(n int, good func(int) bool) int {
	n--
	for n >= 0 && !good(n) {
		n--
	}
	return n
}

// report fails if too little was seen for a judgement, and logs how long the
// dead lanes were in force.
func (j *onlooker) report(rounds, pulls int) {
	j.Helper()
	var gaps []float64
	for _, m := range j.moments {
		next := slices.IndexFunc(j.plans, func(p published) bool { return p.at.After(m.at) })
		if m.gone && next < 0 {
			j.Errorf("no plan followed when %s", name(m))
		} else if m.gone {
			gaps = append(gaps, float64(j.plans[next].at.Sub(m.at).Microseconds())/1000)
		}
	}
	slices.Sort(gaps)
	j.Logf("%d rounds, %d entries changed, plans verified on %d states of the tables; from a pull to the plan %.1f ms, the median of %.1f",
		rounds, j.changed, j.verified, gaps[len(gaps)/2], gaps)
	if j.verified < pulls || j.changed == 0 {
		j.Errorf("%d cables were pulled, and only %d states of the tables with %d changes seen", pulls, j.verified, j.changed)
	}
}

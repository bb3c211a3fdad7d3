package daemon

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// shortest routes every LID through the first port of each switch on a shortest path.
func shortest(f *topology.Fabric) *lft.Tables {
	tables := &lft.Tables{}
	place := make([]int, len(f.Nodes))
	last := 0
	for _, e := range f.EndPorts() {
		last = max(last, int(e.LID))
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Switch {
			place[i] = len(tables.Switches)
			tables.Switches = append(tables.Switches, lft.Table{GUID: n.GUID, LID: n.LID(), Name: n.Name, Ports: len(n.Ports) - 1,
				Out: slices.Repeat([]uint8{lft.NoPath}, last+1)})
		}
	}
	for _, e := range f.EndPorts() {
		reached := map[int32]bool{e.Node: true}
		for queue := []int32{e.Node}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			if f.Nodes[at].Kind == topology.Switch && at == e.Node {
				tables.Switches[place[at]].Out[e.LID] = 0
			}
			for p := range f.Nodes[at].Ports {
				port := &f.Nodes[at].Ports[p]
				if !port.Up() || reached[port.Peer] || f.Nodes[port.Peer].Kind != topology.Switch {
					continue
				}
				reached[port.Peer] = true
				tables.Switches[place[port.Peer]].Out[e.LID] = port.PeerPort
				queue = append(queue, port.Peer)
			}
		}
	}
	return tables
}

// program sets the tables that the daemon reads from the switches.
func program(t *testing.T, d *Daemon, tables *lft.Tables) {
	t.Helper()
	file, err := os.Create(d.cfg.OpenSM.LFTsFile)
	ok(t, err)
	ok(t, tables.Write(file, nil))
	ok(t, file.Close())
}

// liquidly returns a daemon that also schedules other fabrics, with a running loop.
func liquidly(t *testing.T) *Daemon {
	d := readable(newDaemon(t))
	d.cfg.Planning.OtherFabrics = config.OtherLiquid
	d.serving(t)
	return d
}

// show shows a fabric to the loop.
func show(t *testing.T, d *Daemon, f *topology.Fabric) {
	t.Helper()
	ok(t, d.inbox.call(t.Context(), func(ctx context.Context, _ *loop) { d.dumpSeen(ctx, dump(f)) }))
}

// otherPlan waits for the current work to end, and returns the epoch in force.
func otherPlan(t *testing.T, d *Daemon) *store.Epoch {
	t.Helper()
	for busy := true; busy; {
		ok(t, d.inbox.call(t.Context(), func(_ context.Context, _ *loop) { busy = d.core.Busy() }))
	}
	return d.state.Now().Epoch
}

// raised reports whether a warning is in force whose text contains the given one.
func raised(d *Daemon, code, text string) bool {
	for _, w := range d.health.List(time.Now()) {
		if w.Code == code && strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}

// holdsOn checks a plan on tables.
func holdsOn(t *testing.T, e *store.Epoch, f *topology.Fabric, tables *lft.Tables, transfers int) {
	t.Helper()
	var rows []sim.Row
	for s := range e.Plan.Servers() {
		row := e.Plan.Row(s)
		for p := range e.Plan.Phases() {
			if x := row.At(p); x.SendTo >= 0 {
				rows = append(rows, sim.Row{Phase: int32(p), DLID: x.DLID, Src: e.Plan.Server(s).GUID, Dst: e.Plan.Server(x.SendTo).GUID})
				if x.Lane != -1 {
					t.Errorf("phase %d of server %d has lane %d", p, s, x.Lane)
				}
			}
		}
	}
	r, err := sim.Run(f, tables, rows)
	ok(t, err)
	if r.Transfers != transfers || r.Lost > 0 || r.Max != 1 {
		t.Errorf("%d transfers, %d lost, up to %d on a link; want %d, none, 1", r.Transfers, r.Lost, r.Max, transfers)
	}
}

// TestOtherFabrics shows the daemon a dragonfly, the same again, other tables, and a fat
// tree.
func TestOtherFabrics(t *testing.T) {
	d := liquidly(t)
	f := fabgen.Dragonfly(4, 3, 1)
	tables := shortest(f)
	program(t, d, tables)
	show(t, d, f)
	first := otherPlan(t, d)
	if first == nil {
		t.Fatalf("nothing was published: %v", d.health.List(time.Now()))
	}
	if r := first.Report; r.Engine != view.EngineLiquid || r.Servers != 12 || r.Phases < r.LowerBound || r.TopologyHash != f.Hash() || r.Lanes != 0 {
		t.Errorf("report %+v", r)
	}
	holdsOn(t, first, f, tables, 12*11)
	if !raised(d, controller.NotFatTree, "no tables are written") || raised(d, controller.FabricRefused, "") || !d.backend.Status().Ready {
		t.Errorf("warnings %v", d.health.List(time.Now()))
	}

	show(t, d, f)
	if again := otherPlan(t, d); again != first {
		t.Errorf("the same dump led to epoch %d after %d", again.Epoch, first.Epoch)
	}
	// A plan stays if the tables change only in entries that no path uses.
	other := first.Plan.Table()
	n := len(other.Servers)
	for i := range n {
		other.To[i], other.To[n+i] = other.To[n+i], other.To[i]
		other.DLID[i], other.DLID[n+i] = other.DLID[n+i], other.DLID[i]
	}
	ok(t, d.inbox.between(t.Context(), func(_ context.Context, _ turn) {
		plan, err := phasetable.New(other)
		ok(t, err, d.store.Publish(d.store.Disk.Numbers.Next(), state.Plan{Proposal: state.Known{Plan: plan, About: first.Report}, About: first.EpochInfo}))
	}))
	first = d.state.Now().Epoch
	unused := shortest(f)
	unused.Switches[0].Out[unused.Switches[1].LID] = 4 // to another switch, on a detour
	program(t, d, unused)
	show(t, d, f)
	if again := otherPlan(t, d); again != first || raised(d, controller.LiquidFailed, "") {
		t.Errorf("other tables of the same paths led to epoch %d after %d", again.Epoch, first.Epoch)
	}
	program(t, d, tables)
	held, err := os.ReadFile(d.cfg.OpenSM.LFTsFile)
	ok(t, err)

	// A cable of the dragonfly dies.
	f = f.Clone()
	f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 2})
	tables = shortest(f)
	program(t, d, tables)
	show(t, d, f)
	second := otherPlan(t, d)
	if second.Epoch != first.Epoch+1 || second.Report.TopologyHash != f.Hash() {
		t.Errorf("after a change the epoch is %d, for fabric %s", second.Epoch, second.Report.TopologyHash)
	}
	holdsOn(t, second, f, tables, 12*11)
	if now, err := os.ReadFile(d.cfg.OpenSM.LFTsFile); err != nil || len(now) == 0 || slices.Equal(now, held) {
		t.Errorf("the tables are not those of the test any more (%v)", err)
	}

	// A tree that lacks most servers is not believed, whatever the previous fabric was.
	show(t, d, fabric(2, 2))
	if otherPlan(t, d); !raised(d, controller.NotFatTree, "") || !raised(d, controller.FabricIncomplete, "67 %") || d.state.Now().Epoch != second {
		t.Errorf("epoch %d, warnings %v", d.state.Now().EpochNumber(), d.health.List(time.Now()))
	}
}

// TestOtherFabricsAreRefused checks a daemon without the setting, and one whose fabric
// lacks most servers.
func TestOtherFabricsAreRefused(t *testing.T) {
	f := fabgen.Dragonfly(4, 3, 1)
	d := readable(newDaemon(t))
	d.serving(t)
	show(t, d, f)
	if e := otherPlan(t, d); e != nil || !raised(d, controller.FabricRefused, "") || raised(d, controller.NotFatTree, "") {
		t.Errorf("epoch %v, warnings %v", e, d.health.List(time.Now()))
	}

	d = liquidly(t)
	program(t, d, shortest(f))
	show(t, d, f)
	first := otherPlan(t, d)
	show(t, d, fabgen.Dragonfly(3, 3, 0))
	if e := otherPlan(t, d); e != first || !raised(d, controller.FabricIncomplete, "100 % of the servers") {
		t.Errorf("a fabric without hosts led to epoch %v, warnings %v", e, d.health.List(time.Now()))
	}
	ok(t, d.inbox.call(t.Context(), func(ctx context.Context, _ *loop) { d.step(ctx, controller.Reroute{}) })) // now the fabric is believed
	if e := otherPlan(t, d); e != first || !raised(d, controller.LiquidFailed, "0 hosts") || raised(d, controller.FabricRefused, "") {
		t.Errorf("the same when it is believed: epoch %v, warnings %v", e, d.health.List(time.Now()))
	}
}

// TestOtherFabricsWithoutTables checks a daemon that cannot read the switches, and then
// finds pairs without a path.
func TestOtherFabricsWithoutTables(t *testing.T) {
	f := fabgen.Dragonfly(4, 3, 1)
	d := liquidly(t)
	d.cfg.OpenSM.DumpCommand = []string{"false"}
	show(t, d, f)
	if e := otherPlan(t, d); e != nil || !raised(d, controller.ReadBackFailed, "") {
		t.Errorf("epoch %v, warnings %v", e, d.health.List(time.Now()))
	}
	d = liquidly(t)
	d.cfg.Planning.MaxUnreachable = 0.1
	tables := shortest(f)
	host := f.Nodes[f.Find(fabgen.HostGUID)].Ports[1].LID
	for i := range tables.Switches {
		tables.Switches[i].Out[host] = lft.NoPath
	}
	program(t, d, tables)
	show(t, d, f)
	e := otherPlan(t, d)
	if e == nil || e.Report.UnreachablePairs != 11 || !slices.Contains(e.Report.Warnings, "unreachable-pairs") {
		t.Fatalf("epoch %+v, warnings %v", e, d.health.List(time.Now()))
	}
	holdsOn(t, e, f, tables, 11*11)
}

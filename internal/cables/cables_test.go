package cables

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// site has the cables of FT(2;4,3), with counters that the test sets.
type site struct {
	*testing.T
	*Tracker
	fabric *topology.Fabric
	base   *topology.Baseline
	now    time.Time
	counts map[ib.End]umad.PortCounters
	events []string
	aside  map[ib.End]bool
}

func newSite(t *testing.T, mode cablehealth.Mode) *site {
	t.Helper()
	x := &site{T: t, fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}), now: time.Unix(1e9, 0), counts: map[ib.End]umad.PortCounters{}, aside: map[ib.End]bool{}}
	base, err := topology.NewBaseline(x.fabric)
	if err != nil {
		t.Fatal(err)
	}
	x.base = base
	set := cablehealth.Defaults()
	set.Mode = mode
	x.Tracker = New(Parts{Settings: set, Log: zap.NewNop(), Health: health.NewTracker(nil, nil),
		Say: func(kind string, data any) { x.events = append(x.events, kind+": "+data.(api.CableEvent).Text) }})
	x.see(x.fabric)
	return x
}

func (x *site) tree(f *topology.Fabric) *topology.FatTree {
	x.Helper()
	tree, err := topology.Fit(f, x.base, nil)
	if err != nil {
		x.Fatal(err)
	}
	return tree
}

func (x *site) see(f *topology.Fabric) { x.Seen(x.now, x.tree(f)) }

// count adds symbol errors at a port of a node.
func (x *site) count(name string, port uint8, n uint64) {
	x.Helper()
	for i := range x.fabric.Nodes {
		if node := &x.fabric.Nodes[i]; node.Name == name {
			end := ib.End{GUID: node.GUID, Port: port}
			c := x.counts[end]
			c.Symbols += n
			x.counts[end] = c
			return
		}
	}
	x.Fatalf("there is no %s", name)
}

// read reads the counters of all switches except the failed ones.
func (x *site) read(failed ...ib.GUID) Orders {
	x.now = x.now.Add(time.Minute)
	round := Round{Ended: x.now, Ports: map[ib.End]umad.PortCounters{}, Failed: map[ib.GUID]error{}}
	for _, s := range Want(x.tree(x.fabric)) {
		if slices.Contains(failed, s.GUID) {
			round.Failed[s.GUID] = errors.New("it does not answer")
			continue
		}
		for _, p := range s.Ports {
			end := ib.End{GUID: s.GUID, Port: p}
			round.Ports[end] = x.counts[end]
		}
	}
	return x.Round(x.now, round, func(c ib.End) bool { return x.aside[c] })
}

// warned returns the codes of the warnings in force.
func (x *site) warned() string {
	var codes []string
	for _, w := range x.Health.List(time.Now()) {
		codes = append(codes, w.Code)
	}
	return strings.Join(codes, " ")
}

func (x *site) leafCable(leaf int, port uint8) ib.End {
	return ib.End{GUID: x.base.Leaves[leaf].GUID, Port: port}
}

// TestWant wants both ends of all cables, by switch.
func TestWant(t *testing.T) {
	x := newSite(t, cablehealth.Report)
	all := Want(x.tree(x.fabric))
	ports := 0
	for _, s := range all {
		ports += len(s.Ports)
		if s.LID == 0 || s.Name == "" {
			t.Errorf("%+v", s)
		}
	}
	if len(all) != 7 || ports != 24 || Want(nil) != nil {
		t.Errorf("%d switches, %d ports", len(all), ports)
	}
}

// TestIsolate isolates two faulty cables, whose costs are determined one after the other.
func TestIsolate(t *testing.T) {
	x := newSite(t, cablehealth.Isolate)
	if o := x.read(); o.Withhold || o.Weigh != nil {
		t.Fatalf("%+v", o)
	}
	x.count("Leaf001", 6, 40)  // to Spine001
	x.count("Spine003", 3, 50) // to Leaf002
	o := x.read()
	if o.Withhold || o.Weigh == nil || *o.Weigh != x.leafCable(1, 6) || x.warned() != "cable-suspect" {
		t.Fatalf("%+v, warnings %s", o, x.warned())
	}
	if again := x.read(); again.Weigh != nil { // while the answer is pending
		t.Errorf("%+v", again)
	}
	if late := x.Weighed(x.now, x.leafCable(0, 5), Cost{}); late.Withhold || late.Weigh != nil {
		t.Errorf("an answer that nobody waits for: %+v", late)
	}
	o = x.Weighed(x.now, *o.Weigh, Cost{With: 11})
	if !o.Withhold || !slices.Equal(o.Cables, []ib.End{x.leafCable(1, 6)}) || !strings.HasPrefix(o.Text, "Leaf001 port 6 – Spine001 port 2 is isolated, which costs no phase: the leaf's end: 40 symbol errors") ||
		o.Weigh == nil || *o.Weigh != x.leafCable(2, 8) {
		t.Fatalf("%+v", o)
	}
	o = x.Weighed(x.now, *o.Weigh, Cost{With: 13, Phases: 2})
	if o.Withhold || o.Weigh != nil || x.warned() != "cable-isolated cable-not-isolated" {
		t.Errorf("%+v, warnings %s", o, x.warned())
	}
	want := []string{"cable: Leaf001 port 6 – Spine001 port 2 is not well: the leaf's end: 40 symbol errors, 1.44 allowed within 12m0s",
		"cable: Leaf002 port 8 – Spine003 port 3 is not well: the spine's end: 50 symbol errors, 1.44 allowed within 12m0s",
		"cable: Leaf001 port 6 – Spine001 port 2 is isolated, which costs no phase: the leaf's end: 40 symbol errors, 1.44 allowed within 12m0s",
		"cable: Leaf002 port 8 – Spine003 port 3 stays in the plan: without it, and all that is isolated, the exchange would take 13 phases instead of 11, and at most 0 more are allowed (cables.max_cost); the spine's end: 50 symbol errors, 1.44 allowed within 12m0s"}
	if d := cmp.Diff(want, x.events); d != "" {
		t.Error(d)
	}
	if x.Count(cablehealth.Isolated) != 1 || x.Decided("suspect") != 2 || x.Decided("not-isolated") != 1 || !x.ReadAt().Equal(x.now) {
		t.Errorf("%d isolated, %d suspect, %d refused; read at %v", x.Count(cablehealth.Isolated), x.Decided("suspect"), x.Decided("not-isolated"), x.ReadAt())
	}

	a := x.Answer(x.tree(x.fabric), []controller.Lane{{Leaf: 1, Lane: 1}})
	c := a.Cables[5]
	if len(a.Cables) != 12 || c.Leaf.Name != "Leaf001" || c.Spine.Name != "Spine001" || !c.Held || c.State != "isolated" || c.Link != "full" || len(c.Why) != 1 || len(c.History) != 2 || c.Leaf.Counted.Symbols != 40 {
		t.Errorf("%+v", c)
	}

	// All of it survives a restart, through its stored form. The clock is changed by five hours
	// in the meantime, which does not prolong the isolation.
	text, err := json.Marshal(x.Keep(x.now))
	if err != nil {
		t.Fatal(err)
	}
	if form := `"history":[{"at":"`; !bytes.Contains(text, []byte(form)) {
		t.Errorf("a stored decision has its time under another name than in other versions: want %s in %s", form, text)
	}
	var kept Kept
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	const step = 5 * time.Hour
	x.now = x.now.Add(step)
	x.Resume(x.now, kept)
	x.see(x.fabric)
	again := x.Answer(x.tree(x.fabric), nil).Cables[5]
	if late := again.Since.Sub(c.Since) - step; late.Abs() > time.Minute {
		t.Errorf("isolated since %v, %v after it was", again.Since, late)
	}
	if again.State != "isolated" || len(again.History) != 2 || !again.History[1].At.Equal(c.History[1].At) || !slices.Equal(x.Withheld(), []ib.End{x.leafCable(1, 6)}) {
		t.Errorf("after a restart: %+v", again)
	}
	if _, err := x.Release(x.now, "Leaf002/8"); err == nil || !strings.Contains(err.Error(), "not one of the 1 cables that are isolated") {
		t.Errorf("a cable that is not isolated is released: %v", err)
	}
	// The cable is pulled, and another cable of its leaf has its place in the fabric.
	crossed := x.fabric.Clone()
	leaf, spine := crossed.Find(fabgen.LeafGUID+1), crossed.Find(fabgen.SpineGUID+1)
	rate := crossed.Nodes[leaf].Ports[8].Rate
	for _, end := range []topology.PortRef{{Node: leaf, Port: 6}, {Node: leaf, Port: 8}, {Node: spine, Port: 3}} {
		crossed.Disconnect(end)
	}
	crossed.Connect(topology.PortRef{Node: leaf, Port: 8}, topology.PortRef{Node: spine, Port: 3}, rate)
	x.see(crossed)
	o, err = x.Release(x.now, "Spine001/2")
	if err != nil || !o.Withhold || len(o.Cables) != 0 {
		t.Errorf("released: %+v, %v", o, err)
	}
}

// TestAside checks that the counters of a cable in maintenance are ignored, that a cable may go
// down once, and that a cable below its rate is shown with its actual rate.
func TestAside(t *testing.T) {
	x := newSite(t, cablehealth.Isolate)
	x.read()
	x.aside[x.leafCable(0, 5)] = true
	x.count("Leaf000", 5, 1000)
	pulled := x.fabric.Clone()
	if _, err := pulled.Fail("Leaf001/5"); err != nil {
		t.Fatal(err)
	}
	x.see(pulled)
	if o := x.read(); o.Weigh != nil || x.warned() != "" {
		t.Errorf("%+v, %s", o, x.warned())
	}
	if c := x.Answer(x.tree(pulled), nil).Cables[4]; c.Link != "missing" || c.Leaf.Port != 5 || c.Spine.Port != 2 {
		t.Errorf("%+v", c)
	}
	slow := x.fabric.Clone()
	node := slow.Find(x.base.Leaves[2].GUID)
	slow.Nodes[node].Ports[7].Rate.Width = 1
	x.see(slow)
	x.read()
	if c := x.Answer(x.tree(slow), nil).Cables[10]; c.Link != "degraded" || c.State != "suspect" || !strings.Contains(c.Why[0], "instead of") {
		t.Errorf("%+v", c)
	}
	x.see(x.fabric)
	x.read()
	if x.warned() != "" {
		t.Errorf("all is well, and warned is %s", x.warned())
	}
}

// TestUnread checks the warning if isolation depends on counters that cannot be read, and that
// it shows the failure.
func TestUnread(t *testing.T) {
	for _, c := range []struct {
		mode cablehealth.Mode
		err  error
		want string
	}{
		{cablehealth.Isolate, errors.New("the port was closed"), Unread}, {cablehealth.Report, errors.New("the port was closed"), Unread},
		{cablehealth.Isolate, umad.ErrNotBuiltIn, Unread}, {cablehealth.Report, umad.ErrNotBuiltIn, ""},
	} {
		x := newSite(t, c.mode)
		x.Round(x.now, Round{Err: c.err}, func(ib.End) bool { return false })
		if x.warned() != c.want || x.Answer(nil, nil).Unread != c.err.Error() || !x.ReadAt().IsZero() {
			t.Errorf("%s, %v: warned is %q, read at %v", c.mode, c.err, x.warned(), x.ReadAt())
		}
		if x.read(x.base.Leaves[1].GUID); x.warned() != "" {
			t.Errorf("it is read again, and warned is %q", x.warned())
		}
		if a := x.Answer(x.tree(x.fabric), nil); !slices.Equal(a.Failed, []string{"Leaf001: it does not answer"}) || a.Unread != "" {
			t.Errorf("%+v", a)
		}
	}
}

// TestThreeLevels checks that the cables of leaves and of mids on three levels are read, shown,
// and isolated when faulty.
func TestThreeLevels(t *testing.T) {
	tree := fabgen.FittedPods(t, fabgen.GenerateTree(fabgen.KAry(4))).Exchange()
	f := tree.Fabric
	ports := 0
	for _, s := range Want(tree) {
		ports += len(s.Ports)
	}
	if ports != 2*(16+16) {
		t.Errorf("%d ports are wanted, there are 16 cables of leaves and 16 of mids", ports)
	}
	for _, c := range []struct {
		node     string
		port     uint8
		far      string
		index    int
		withheld controller.Lane
	}{{"Leaf003", 4, "Mid003", 1, controller.Lane{Leaf: 3, Lane: 1}}, {"Mid002", 3, "Top000", 0, controller.Lane{Leaf: 2, Lane: 2}}} {
		set := cablehealth.Defaults()
		set.Mode = cablehealth.Isolate
		r := New(Parts{Settings: set, Log: zap.NewNop(), Health: health.NewTracker(nil, nil), Say: func(string, any) {}})
		now := time.Unix(1e9, 0)
		r.Seen(now, tree)
		bad := ib.End{GUID: nodeOf(t, f, c.node), Port: c.port}
		var excluded exclusions.Set
		for i := range uint64(60) {
			now = now.Add(time.Minute)
			round := Round{Ended: now, Ports: map[ib.End]umad.PortCounters{}}
			for _, s := range Want(tree) {
				for _, p := range s.Ports {
					end := umad.PortCounters{}
					if s.GUID == bad.GUID && p == bad.Port {
						end.Symbols = 1000 * i
					}
					round.Ports[ib.End{GUID: s.GUID, Port: p}] = end
				}
			}
			o := r.Round(now, round, func(ib.End) bool { return false })
			for o.Weigh != nil {
				o = r.Weighed(now, *o.Weigh, Cost{With: 1})
			}
			excluded.Replace(exclusions.Isolated, r.Withheld())
		}
		if lanes := excluded.Lanes(tree, exclusions.Any); !slices.Equal(lanes, []controller.Lane{c.withheld}) {
			t.Errorf("%s/%d: lanes %v are isolated, want %v", c.node, c.port, lanes, c.withheld)
		}
		shown := r.Answer(tree, nil).Cables
		at := slices.IndexFunc(shown, func(x api.Cable) bool { return x.Leaf.GUID == bad.GUID && x.Leaf.Port == bad.Port })
		if len(shown) != 32 || at < 0 || shown[at].Leaf.Name != c.node || shown[at].Spine.Name != c.far || shown[at].Lane != c.index || shown[at].State != string(cablehealth.Isolated) {
			t.Errorf("%s/%d: %d cables are shown, this one as %+v", c.node, c.port, len(shown), shown[max(0, at)])
		}
	}
}

// nodeOf returns the GUID of a node.
func nodeOf(t *testing.T, f *topology.Fabric, name string) ib.GUID {
	t.Helper()
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return f.Nodes[i].GUID
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

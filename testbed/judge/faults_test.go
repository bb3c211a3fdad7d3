package judge

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// onTwo is FT(2;4,4) with a dead cable, a slow one, a drained one, and a job of half the
// servers.
func onTwo(t *testing.T) *site {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 3})
	s := newSite("two levels", f)
	tree := fabgen.Fitted(t, f, fabgen.Fails(t, "Leaf001/6"), func(f *topology.Fabric) {
		f.At(topology.PortRef{Node: f.Find(fabgen.LeafGUID + 2), Port: 7}).Rate.Width = 1
	})
	s.drained(tree, "cable", 3, 3)
	var members []ib.GUID
	for _, i := range tree.Servers {
		if i%2 == 0 {
			members = append(members, tree.Hosts[i].GUID)
		}
	}
	return s.two(t, tree, members)
}

// onThree is the 4-ary tree of three levels with a dead cable.
func onThree(t *testing.T, lmc uint8) *site {
	spec := fabgen.KAry(4)
	spec.LMC = lmc
	f := fabgen.GenerateTree(spec)
	s := newSite("three levels", f)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	fabgen.Fails(t, "Leaf001/3")(f)
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.three(t, tree)
}

// leaf numbers the switch of a host port, with that many hosts on each.
func leaf(guid uint64, hosts int) int {
	return int(guid-uint64(fabgen.HostGUID)) / 2 / hosts
}

// first is the place of the first transfer that is as wanted.
func first(rows []Transfer, is func(r Transfer) bool) int { return slices.IndexFunc(rows, is) }

func remote(r Transfer) bool { return r.Lane >= 0 }
func local(r Transfer) bool  { return r.Lane < 0 }

// meet makes a transfer take the cable of another one of its phase: up from one leaf, or down
// to one.
func meet(rows []Transfer, hosts int, down bool) {
	end := func(r Transfer) int {
		if down {
			return leaf(r.Dst, hosts)
		}
		return leaf(r.Src, hosts)
	}
	for _, a := range rows {
		for i, b := range rows {
			if a.Lane < 0 || b.Lane < 0 || a.Phase != b.Phase || a.Lane == b.Lane || end(a) != end(b) {
				continue
			}
			for _, c := range rows { // the LID by which b's destination is sent to on the lane, from the same leaf
				if c.Dst == b.Dst && c.Lane == a.Lane && leaf(c.Src, hosts) == leaf(b.Src, hosts) {
					rows[i].Lane, rows[i].DLID = c.Lane, c.DLID
					return
				}
			}
		}
	}
	panic("no two transfers can meet")
}

// shift moves a transfer to a phase in which its source, or its destination, is busy and the
// other is not, nor are the cables of its lane.
func shift(rows []Transfer, receives bool) {
	for i, a := range rows {
		for _, b := range rows {
			if a.Phase == b.Phase || (a.Src == b.Src) == receives || (a.Dst == b.Dst) != receives {
				continue
			}
			free := !slices.ContainsFunc(rows, func(c Transfer) bool {
				return c.Phase == b.Phase && (receives && c.Src == a.Src || !receives && c.Dst == a.Dst || a.Lane >= 0 && c.Lane == a.Lane)
			})
			if free {
				rows[i].Phase = b.Phase
				return
			}
		}
	}
	panic("no transfer can move")
}

// table changes entries of the tables: at has those of a switch by its GUID.
func (s *site) table(change func(at Tables)) {
	t, err := ReadTables(s.tables)
	if err != nil {
		panic(err)
	}
	change(t)
	var out bytes.Buffer
	for _, guid := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&out, "Unicast lids [0x0-0x3f] of switch DR path slid 0; dlid 0; 0 guid 0x%016x (x):\n", guid)
		for lid, port := range t[guid] {
			if port != noEntry {
				fmt.Fprintf(&out, "0x%04x %03d : (x)\n", lid, port)
			}
		}
	}
	s.tables = out.Bytes()
}

// figure changes a figure of a plan.
func (s *site) figure(document, name string, by int) {
	x := maps.Clone(s.answers[document])
	switch n := x[name].(type) {
	case float64:
		x[name] = n + float64(by)
	case int:
		x[name] = n + by
	}
	if document == byLanes {
		s.answers["/v1/status"] = x
	}
	s.answers[document] = x
}

// row changes the first transfer that is as wanted.
func (s *site) row(phases string, is func(Transfer) bool, change func(r *Transfer)) {
	change(&s.rows[phases][first(s.rows[phases], is)])
}

// without leaves out the transfers that are as named.
func (s *site) without(phases string, is func(Transfer) bool) {
	s.rows[phases] = slices.DeleteFunc(s.rows[phases], is)
}

const (
	leaves, spines, tops = uint64(fabgen.LeafGUID), uint64(fabgen.SpineGUID), uint64(fabgen.TopGUID)
	hosts                = uint64(fabgen.HostGUID) + 1
)

// lid is the base LID of a host port.
func (s *site) lid(n int) int {
	f, err := ReadFabric(s.discovered)
	if err != nil {
		panic(err)
	}
	return f.at(f.ports[hosts+2*uint64(n)]).lid
}

// faults are faults in plans, tables and answers of forsd, with the judge's words for each.
var faults = []struct {
	name  string
	spoil func(s *site)
	want  string
}{
	// Plans by lanes, on two levels.
	{"two transfers meet on a cable up", func(s *site) { meet(s.rows[byLanesRows], 4, false) }, "carries another transfer"},
	{"two transfers meet on a cable down", func(s *site) { meet(s.rows[byLanesRows], 4, true) }, "carries another transfer"},
	{"a server sends twice", func(s *site) { shift(s.rows[byLanesRows], false) }, "sends another transfer"},
	{"a server receives twice", func(s *site) { shift(s.rows[byLanesRows], true) }, "receives another transfer"},
	{"a pair occurs twice", func(s *site) {
		r := s.rows[byLanesRows][0]
		r.Phase = 1000
		s.rows[byLanesRows] = append(s.rows[byLanesRows], r)
	}, "occurs again"},
	{"a pair is missing", func(s *site) { s.rows[byLanesRows] = s.rows[byLanesRows][1:] }, "there is a way"},
	{"a pair is missing, and called unreachable", func(s *site) {
		s.rows[byLanesRows] = s.rows[byLanesRows][1:]
		s.figure(byLanes, "unreachable_pairs", 1)
	}, "there is a way"},
	{"a pair is called unreachable, and is planned", func(s *site) { s.figure(byLanes, "unreachable_pairs", 1) }, "said to leave out 1 pairs"},
	{"the LID is another server's", func(s *site) { s.row(byLanesRows, remote, func(r *Transfer) { r.DLID += 8 }) }, "the LID is not the destination's"},
	{"the LID is one below the destination's", func(s *site) {
		s.row(byLanesRows, local, func(r *Transfer) { r.DLID-- })
	}, "the LID is not the destination's"},
	{"the LID is the destination's, of another lane", func(s *site) {
		s.row(byLanesRows, func(r Transfer) bool { return remote(r) && r.DLID%4 == 1 }, func(r *Transfer) { r.DLID++ })
	}, ""},
	{"the lane is the next one", func(s *site) { s.row(byLanesRows, remote, func(r *Transfer) { r.Lane = (r.Lane + 1) % 4 }) }, "lane"},
	{"no lane between two leaves", func(s *site) { s.row(byLanesRows, remote, func(r *Transfer) { r.Lane = -1 }) }, "lane -1, of 4"},
	{"a lane within a leaf", func(s *site) { s.row(byLanesRows, local, func(r *Transfer) { r.Lane = 0 }) }, "lane 0, of 4"},
	{"a transfer within a leaf by another LID than the base LID", func(s *site) { s.row(byLanesRows, local, func(r *Transfer) { r.DLID++ }) }, "is not the base LID"},
	{"a server sends to itself", func(s *site) { s.row(byLanesRows, local, func(r *Transfer) { r.Dst = r.Src }) }, "not two servers"},
	{"a server that the fabric does not have", func(s *site) { s.row(byLanesRows, local, func(r *Transfer) { r.Dst = 0xbad }) }, "not two servers"},
	{"a server is left out", func(s *site) {
		s.without(byLanesRows, func(r Transfer) bool { return r.Src == hosts || r.Dst == hosts })
		s.figure(byLanes, "servers", -1)
	}, "there is a way"},
	{"a phase more is told of", func(s *site) { s.figure(byLanes, "phases", 1); s.figure(byLanes, "gap", 1) }, "said to have 17 phases"},
	{"a phase less is told of", func(s *site) { s.figure(byLanes, "phases", -1); s.figure(byLanes, "gap", -1) }, "said to have 15 phases"},
	{"the bound is one too high", func(s *site) { s.figure(byLanes, "lower_bound", 1); s.figure(byLanes, "gap", -1) }, "a gap of -1"},
	{"the bound is one too low", func(s *site) { s.figure(byLanes, "lower_bound", -1); s.figure(byLanes, "gap", 1) }, "no plan has fewer"},
	{"the gap is not that of phases and bound", func(s *site) { s.figure(byLanes, "gap", 1) }, "a gap of 1"},
	{"a server more is told of", func(s *site) { s.figure(byLanes, "servers", 1) }, "said to have 17 servers"},
	{"the status has another number", func(s *site) { s.answers["/v1/status"] = object{"epoch": 6, "phases": 20, "servers": 16} }, "the status has epoch 6"},
	// Base LIDs.
	{"a transfer to another LID than the base LID", func(s *site) { s.row(byBaseRows, remote, func(r *Transfer) { r.DLID++ }) }, "the LID is not the destination's"},
	{"two transfers to base LIDs change phases", func(s *site) {
		rows := s.rows[byBaseRows]
		i := first(rows, remote)
		j := first(rows, func(r Transfer) bool { return remote(r) && r.Phase != rows[i].Phase && r.Src == rows[i].Src })
		rows[i].Phase, rows[j].Phase = rows[j].Phase, rows[i].Phase
	}, "another transfer"},
	{"the tables for base LIDs are those of the next LID", func(s *site) {
		s.table(func(at Tables) {
			for guid := range at {
				copy(at[guid][s.lid(0):], at[guid][s.lid(0)+1:])
			}
		})
	}, ""},
	{"a leaf's entry for a base LID has another lane", func(s *site) {
		s.table(func(at Tables) { at[leaves][s.lid(5)] = at[leaves][s.lid(5)]%4 + 5 })
	}, ""},
	{"the bound for base LIDs is one too low", func(s *site) {
		x := s.answers[byBase]
		x["lower_bound"], x["gap"], x["certificate"] = 14, x["phases"].(float64)-14, "lid"
	}, "no plan has fewer"},
	// Tables.
	{"an entry leads to a dead port", func(s *site) { s.table(func(at Tables) { at[leaves+1][s.lid(0)] = 6 }) }, "leads LID"},
	{"an entry leads to a port that is not there", func(s *site) { s.table(func(at Tables) { at[leaves+1][s.lid(0)+1] = 77 }) }, "leads LID"},
	{"an entry is missing", func(s *site) { s.table(func(at Tables) { at[spines][s.lid(3)+2] = noEntry }) }, "has no entry"},
	{"an entry for the LID of a switch is missing", func(s *site) { s.table(func(at Tables) { at[leaves+2][1] = noEntry }) }, "has no entry"},
	{"an entry leads to another host", func(s *site) { s.table(func(at Tables) { at[leaves][s.lid(0)] = 2 }) }, "delivers LID"},
	{"an entry leads to another leaf, which leads back", func(s *site) {
		s.table(func(at Tables) { at[spines][s.lid(0)], at[leaves+2][s.lid(0)] = 3, 5 })
	}, "circle of channels"},
	{"ways depend on each other in a ring", func(s *site) {
		s.table(func(at Tables) {
			a, b := s.lid(0), s.lid(1)
			at[spines][a], at[leaves+2][a] = 3, 6   // to leaf 2 and on to spine 1
			at[spines+1][b], at[leaves+3][b] = 4, 5 // to leaf 3 and on to spine 0
		})
	}, "circle of channels"},
	{"a switch has no table", func(s *site) { s.table(func(at Tables) { delete(at, spines+2) }) }, "has no table"},
	{"a table of a switch that is not there", func(s *site) { s.table(func(at Tables) { at[0xbad] = at[spines] }) }, "which was not discovered"},
	// Jobs.
	{"a job has the number of another plan", func(s *site) { s.figure(ofJob, "epoch", -1) }, "and its plan 6"},
	{"a job's plan leaves out a server", func(s *site) {
		gone := s.rows[ofJobRows][0].Src
		s.without(ofJobRows, func(r Transfer) bool { return r.Src == gone || r.Dst == gone })
	}, "there is a way"},
	{"a host of a job is said to be missing, and is there", func(s *site) { s.answers[job]["missing"] = []object{{"guid": fmt.Sprintf("0x%016x", hosts)}} }, "and is there"},
	{"a job's plan has a server of another one", func(s *site) { s.row(ofJobRows, remote, func(r *Transfer) { r.Src = hosts + 2 }) }, "not two servers"},
	{"two transfers of a job meet", func(s *site) { meet(s.rows[ofJobRows], 4, false) }, "carries another transfer"},
	{"the plan for base LIDs of a job has another number", func(s *site) {
		s.answers[ofJob+"?lids=base"], s.rows[ofJobRows+"&lids=base"] = s.answers[ofJob], nil
		for _, r := range s.rows[ofJobRows] { // one transfer a phase, which no tables forbid
			r.DLID = r.DLID / 4 * 4
			s.rows[ofJobRows+"&lids=base"] = append(s.rows[ofJobRows+"&lids=base"], r)
		}
		s.answers[job]["base"] = object{"epoch": 3}
	}, ""},
	{"two jobs with lanes of their own meet", func(s *site) {
		s.answers[job]["lanes"] = []object{{"leaf": "0x1"}}
		s.answers["/v1/jobs"]["jobs"] = []object{{"id": 7}, {"id": 8}}
		s.answers["/v1/jobs/8"], s.answers["/v1/jobs/8/plan"], s.rows["/v1/jobs/8/phases?format=csv"] = s.answers[job], s.answers[ofJob], s.rows[ofJobRows]
	}, "have lanes of their own"},
	// Drains, isolated cables, cables that are slow.
	{"a transfer takes a cable that is drained", func(s *site) {
		s.answers["/v1/drains"]["drains"] = []object{{"kind": "cable", "name": "Leaf000/5", "guid": "0x200000", "port": 5, "state": "draining"}}
	}, "kept out of plans"},
	{"a transfer takes a spine that is drained", func(s *site) {
		s.answers["/v1/drains"]["drains"] = []object{{"kind": "spine", "name": "Spine000", "guid": "0x300000", "state": "safe"}}
	}, "kept out of plans"},
	{"a host of a leaf that is drained takes part", func(s *site) {
		s.answers["/v1/drains"]["drains"] = []object{{"kind": "leaf", "name": "Leaf002", "guid": "0x200002", "state": "safe"}}
	}, "not two servers"},
	{"a transfer takes a cable that is isolated", func(s *site) {
		s.answers["/v1/cables"]["cables"] = []object{{"leaf": object{"guid": "0x200000", "port": 6}, "link": "degraded", "held": true}}
	}, "kept out of plans"},
	{"a transfer takes a cable that is slow", func(s *site) {
		s.discovered = bytes.Replace(s.discovered, []byte(`"Spine000" lid 5 4xHDR`), []byte(`"Spine000" lid 5 1xHDR`), 1)
	}, "which is slow"},
	{"a host is not shown", func(s *site) {
		x := s.answers["/v1/topology"]
		x["hosts"] = x["hosts"].([]object)[1:]
	}, "forsd shows 15 host ports"},
	{"a cable is shown by one of its ends", func(s *site) {
		lines := strings.Split(string(s.discovered), "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"Leaf000"`) && strings.HasPrefix(l, "[") })
		s.discovered = []byte(strings.Join(slices.Delete(lines, i, i+1), "\n"))
	}, "other end does not show"},
}

// faultsOnThree are faults on three levels, by base LIDs.
var faultsOnThree = []struct {
	name  string
	spoil func(s *site)
	want  string
}{
	{"two transfers meet", func(s *site) {
		rows := s.rows[byLanesRows]
		i := first(rows, remote)
		j := first(rows, func(r Transfer) bool { return remote(r) && r.Phase != rows[i].Phase && r.Src == rows[i].Src })
		rows[i].Phase, rows[j].Phase = rows[j].Phase, rows[i].Phase
	}, "another transfer"},
	{"a pair is missing", func(s *site) { s.rows[byLanesRows] = s.rows[byLanesRows][1:] }, "there is a way"},
	{"a server receives twice", func(s *site) { shift(s.rows[byLanesRows], true) }, "another transfer"},
	{"a lane is another one's", func(s *site) {
		s.row(byLanesRows, func(r Transfer) bool { return r.Lane >= 0 && r.Lane < 4 }, func(r *Transfer) { r.Lane ^= 1 })
	}, "lane"},
	{"the bound is one too high", func(s *site) { s.figure(byLanes, "lower_bound", 100); s.figure(byLanes, "gap", -100) }, "a gap of -"},
	{"the bound is less than the servers allow", func(s *site) {
		x := s.answers[byLanes]
		x["lower_bound"], x["gap"] = 14, x["phases"].(float64)-14
	}, "the bound is 14"},
	{"an entry of a mid leads to a dead port", func(s *site) { s.table(func(at Tables) { at[spines][s.lid(2)] = 2 }) }, "leads LID"},
	{"an entry of a top leads to another pod", func(s *site) { s.table(func(at Tables) { at[tops][s.lid(0)] = at[tops][s.lid(4)] }) }, ""},
	{"an entry of a top is missing", func(s *site) { s.table(func(at Tables) { at[tops+1][s.lid(8)] = noEntry }) }, "has no entry"},
	{"a leaf's entry for a base LID goes to another plane", func(s *site) {
		s.table(func(at Tables) { at[leaves+4][s.lid(0)] = 7 - at[leaves+4][s.lid(0)] })
	}, ""},
	{"a mid that is drained is used", func(s *site) {
		s.answers["/v1/drains"]["drains"] = []object{{"kind": "mid", "name": "Mid002", "guid": "0x300002", "state": "safe"}}
	}, "kept out of plans"},
	{"a cable to a top that is drained is used", func(s *site) {
		s.answers["/v1/drains"]["drains"] = []object{{"kind": "cable", "name": "Mid002/3", "guid": "0x300002", "port": 3, "state": "safe"}}
	}, "kept out of plans"},
	{"a host is not shown", func(s *site) {
		x := s.answers["/v1/topology"]
		x["hosts"] = x["hosts"].([]object)[1:]
	}, "forsd shows 15 host ports"},
}

// TestFaults checks that the judge finds each fault by itself, and names it.
func TestFaults(t *testing.T) {
	try := func(s *site, name, want string) {
		err := s.judge(&Site{Everyone: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: %v, want %q", s.name, name, err, want)
		}
	}
	for _, make := range []func() *site{func() *site { return onTwo(t) }, func() *site { return onThree(t, 0) }, func() *site { return onThree(t, 2) }} {
		if s := make(); s.judge(&Site{Everyone: true}) != nil {
			t.Fatalf("%s: %v", s.name, s.judge(&Site{Everyone: true}))
		}
	}
	for _, c := range faults {
		s := onTwo(t)
		c.spoil(s)
		try(s, c.name, c.want)
	}
	for _, c := range faultsOnThree {
		s := onThree(t, 0)
		c.spoil(s)
		try(s, c.name, c.want)
	}
	if len(faults)+len(faultsOnThree) < 40 {
		t.Errorf("%d faults on two levels and %d on three, want 40", len(faults), len(faultsOnThree))
	}
}

// TestNumbers checks that a judge notices that the plan has become another one under its
// number.
func TestNumbers(t *testing.T) {
	s, j := onTwo(t), &Site{}
	for range 2 {
		if err := s.judge(j); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.rows[byLanesRows] { // a good plan, too
		if r := &s.rows[byLanesRows][i]; r.Phase < 2 {
			r.Phase = 1 - r.Phase
		}
	}
	if err := s.judge(j); err == nil || !strings.Contains(err.Error(), "stands for two plans") {
		t.Error(err)
	}
}

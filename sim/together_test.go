package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestTogether compares exchanges side by side with their sum, with each alone,
// and with loads counted from traces.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ft, tables := fabric(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 1}, nil)
		var names []string
		var schedules [][]Row
		var all []Row
		for i := range rapid.IntRange(1, 3).Draw(rt, "schedules") {
			names, schedules = append(names, string(rune('a'+i))), append(schedules, nil)
			for range rapid.IntRange(0, 20).Draw(rt, "rows") {
				src, dst := &ft.Hosts[rapid.IntRange(0, 8).Draw(rt, "src")], &ft.Hosts[rapid.IntRange(0, 8).Draw(rt, "dst")]
				row := Row{Phase: int32(rapid.IntRange(0, 3).Draw(rt, "phase")), Src: src.GUID, Dst: dst.GUID, DLID: dst.LID + ib.LID(rapid.IntRange(0, 1).Draw(rt, "lid"))}
				schedules[i], all = append(schedules[i], row), append(all, row)
			}
		}
		got, err := RunTogether(ft.Fabric, tables, names, schedules)
		if err != nil {
			rt.Fatal(err)
		}
		want := run(t, ft.Fabric, tables, all)
		want.RelativeThroughput = got.RelativeThroughput // another P
		if diff := cmp.Diff(want, &got.Result); diff != "" {
			rt.Fatalf("the sum (-want +got):\n%s", diff)
		}
		type place struct {
			phase int32
			at    topology.PortRef
		}
		load := map[place]int{}
		links := func(r *Row) (out []place) {
			for i := range ft.Hosts {
				if h := &ft.Hosts[i]; h.GUID == r.Src && r.Src != r.Dst {
					hops, err := tables.Trace(ft.Fabric, h.PortRef, r.DLID)
					if err != nil {
						rt.Fatal(err)
					}
					for _, hop := range hops[:len(hops)-1] {
						out = append(out, place{r.Phase, topology.PortRef{Node: hop.Node, Port: hop.Out}})
					}
				}
			}
			return out
		}
		for i := range all {
			for _, l := range links(&all[i]) {
				load[l]++
			}
		}
		for i, rows := range schedules {
			s := &got.Schedules[i]
			if diff := cmp.Diff(run(t, ft.Fabric, tables, rows), s.Alone); diff != "" {
				rt.Fatalf("%s alone (-want +got):\n%s", s.Name, diff)
			}
			most := make([]int, s.Alone.Phases)
			for j := range rows {
				for _, l := range links(&rows[j]) {
					most[l.phase] = max(most[l.phase], load[l])
				}
			}
			if diff := cmp.Diff(most, s.Together.PerPhaseMax); diff != "" {
				rt.Fatalf("%s beside the others (-want +got):\n%s", s.Name, diff)
			}
		}
	})
}

// TestTogetherOfJobs: two halves of the servers, each in a shift of its own, get in
// each other's way, and the figures say how much.
func TestTogetherOfJobs(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}, nil)
	halves := make([][]Row, 2)
	for _, r := range LinearShift(ft) {
		src, dst := r.Src>>1&1, r.Dst>>1&1
		if src == dst {
			halves[src] = append(halves[src], r)
		}
	}
	got, err := RunTogether(ft.Fabric, tables, []string{"even", "odd"}, halves)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Schedules {
		if s.Alone.Max != 1 || s.Together.Max != 1 || s.Alone.Servers != 8 {
			t.Errorf("%s: alone %+v, together %+v: halves of one shift do not meet", s.Name, s.Alone, s.Together)
		}
	}
	halves[1] = halves[0]
	if got, err = RunTogether(ft.Fabric, tables, []string{"a", "b"}, halves); err != nil {
		t.Fatal(err)
	}
	s := &got.Schedules[0]
	if s.Together.Max != 2 || s.Together.ConflictShare != 1 || 2*s.Together.RelativeThroughput != s.Alone.RelativeThroughput || got.RelativeThroughput != s.Together.RelativeThroughput {
		t.Errorf("the same exchange twice: alone %+v, together %+v, all %+v", s.Alone, s.Together, got.Result)
	}
	if _, err := RunTogether(ft.Fabric, tables, nil, halves); err == nil {
		t.Error("schedules without names passed")
	}
}

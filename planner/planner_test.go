package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ilp"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

var bg = context.Background()

// tree is a generated fabric with some cables of leaf 0 gone, against the
// baseline of the whole.
func tree(t *testing.T, s fabgen.Spec, dead ...uint8) *topology.FatTree {
	t.Helper()
	return fabgen.Fitted(t, fabgen.Generate(s), func(f *topology.Fabric) {
		for _, p := range dead {
			f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: p})
		}
	})
}

func codes(ws []Warning) (out []string) {
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return out
}

func TestEngines(t *testing.T) {
	healthy, cut := tree(t, fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3}), tree(t, fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3}, 7, 8)
	for _, c := range []struct {
		tree   *topology.FatTree
		engine string
		want   fors.Engine
	}{
		{healthy, "", fors.Rotation}, {healthy, Auto, fors.Rotation}, {healthy, "algorithm", fors.Shift}, {healthy, "exact", fors.Exact},
		{cut, "algorithm", fors.Algorithm}, {cut, "exact", fors.Exact},
	} {
		r, err := Make(bg, c.tree, Settings{Engine: c.engine})
		if err != nil {
			t.Fatalf("engine %q: %v", c.engine, err)
		}
		if r.Plan.Engine != c.want || r.Plan.Gap() != 0 {
			t.Errorf("engine %q gave a plan by %s with gap %d, want %s", c.engine, r.Plan.Engine, r.Plan.Gap(), c.want)
		}
		if err := r.Check(r.Tables); err != nil {
			t.Errorf("engine %q: %v", c.engine, err)
		}
	}
	if _, err := Make(bg, healthy, Settings{Engine: "magic"}); err == nil || !strings.Contains(err.Error(), `engine "magic" does not exist`) {
		t.Errorf("an unknown engine gave %v", err)
	}
}

// TestAlgorithmInsists checks that the paper's path is not replaced silently.
func TestAlgorithmInsists(t *testing.T) {
	ft := fabgen.Damaged(t, fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3}, [2]int{0, 0}, [2]int{1, 1})
	if _, err := Make(bg, ft, Settings{Engine: "algorithm"}); err == nil || !strings.Contains(err.Error(), "m = 2 lanes, and the bandwidth reduction is f = 1") {
		t.Errorf("m > f gave %v", err)
	}
}

// TestFewLIDs plans with fewer LIDs than lanes: base LIDs carry the healthy
// exchange, and after a failure lanes are closed to servers, which is said.
func TestFewLIDs(t *testing.T) {
	for _, dead := range [][]uint8{nil, {7}} {
		r, err := Make(bg, tree(t, fabgen.Spec{Spines: 6, Leaves: 4, LMC: 1}, dead...), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if c := codes(r.Warnings); len(c) == 0 || c[0] != LMCTooSmall {
			t.Errorf("%d cables dead: warnings %v", len(dead), c)
		}
	}
}

// TestBystanderBeyondLanes checks that a bystander that pushes α beyond the lanes does not
// lengthen the exchange.
func TestBystanderBeyondLanes(t *testing.T) {
	ft := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 3, Hosts: []int{5, 4, 4}, LMC: 2})
	for n, i := range ft.Servers {
		if ft.Hosts[i].Leaf == 0 && ft.Hosts[i].Alpha == 0 {
			ft.Servers = append(ft.Servers[:n:n], ft.Servers[n+1:]...)
			break
		}
	}
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Plan.Phases != 11 {
		t.Errorf("12 servers on 3 leaves, 4 lanes: %d phases by %s, want 11", r.Plan.Phases, r.Plan.Engine)
	}
}

// TestVerified checks that a plan that fails on the tables is replaced by one of the next engine
// that holds, down to the last engine, or refused.
func TestVerified(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	made, err := Route(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	tables := made.Tables
	s, err := Plan(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	order := []fors.Engine{fors.Rotation, fors.Exact, fors.ILP, fors.Conservative}
	if !ilp.Available() {
		order = slices.Delete(order, 2, 3)
	}
	for _, want := range order {
		if s.Plan.Engine != want {
			t.Fatalf("a plan by %s, want %s", s.Plan.Engine, want)
		}
		if again, err := s.Verified(bg, tables); again != s || err != nil {
			t.Fatalf("the plan by %s is not left as it is: %v", want, err)
		}
		row := s.Rows.To[:s.Plan.Servers]
		row[0], row[1] = row[1], row[0]
		next, err := s.Verified(bg, tables)
		if want == fors.Conservative {
			if err == nil {
				t.Error("a spoiled conservative plan was replaced")
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Check(tables); err != nil {
			t.Fatal(err)
		}
		if c := codes(next.Warnings); len(c) == 0 || c[len(c)-1] != EngineFallback {
			t.Errorf("a spoiled plan by %s was replaced with warnings %v", want, c)
		}
		s = next
	}
	if s, err = Plan(bg, ft, Settings{}); err != nil {
		t.Fatal(err)
	}
	for i := range tables.Switches {
		for lid := range tables.Switches[i].Out {
			tables.Switches[i].Out[lid] = lft.NoPath
		}
	}
	if _, err := s.Verified(bg, tables); err == nil {
		t.Error("a plan was verified on empty tables")
	}
}

func TestUnreachable(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2}, 4, 5, 6)
	pairs := Unreachable(ft, verify.Rows{})
	if len(pairs) != 2*3*6 {
		t.Fatalf("%d pairs are unreachable with leaf 0 cut off, want 36", len(pairs))
	}
	var refused *TooManyUnreachable
	if _, err := Make(bg, ft, Settings{}); !errors.As(err, &refused) || refused.Pairs != 36 || refused.Of != 72 {
		t.Errorf("without a limit of its own: %v", err)
	}
	if _, err := Plan(bg, ft, Settings{MaxUnreachable: new(0.49)}); !errors.As(err, &refused) {
		t.Errorf("with a limit of 49 %%: %v", err)
	}
	if r, err := Route(bg, ft, Settings{}); err != nil || r.Schedule != nil || verify.Tables(ft, r.Tables) != nil {
		t.Errorf("its tables: %v", err)
	}
	r, err := Make(bg, ft, Settings{MaxUnreachable: new(0.5)})
	if err != nil {
		t.Fatal(err)
	}
	if rep := r.Report(); rep.UnreachablePairs != 36 || !strings.Contains(strings.Join(rep.Warnings, " "), UnreachablePairs) {
		t.Errorf("the report says %+v", rep)
	}
	if err := verify.Plan(ft, r.Tables, r.Rows, pairs); err != nil {
		t.Error(err)
	}
}

// TestWriteDir checks that the files are whole, of the plans that they are named after, and the
// same at every run, except for the time that planning took.
func TestWriteDir(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 5, Leaves: 4, LMC: 3}, 7)
	files := map[string][2][]byte{}
	for run := range 2 {
		r, err := Make(bg, ft, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := r.WriteDir(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{PhasesFile, TablesFile, BinaryFile, BaseFile, BaseBinaryFile, UnreachableFile, ReportFile} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			both := files[name]
			both[run] = data
			files[name] = both
		}
		for name, plan := range map[string]*phasetable.Table{"phases.csv": r.Table(0), "base.csv": r.Base.Table(0)} { // programs of others know these names
			var want bytes.Buffer
			if err := phasetable.WriteCSV(&want, plan); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(data, want.Bytes()) {
				t.Errorf("%s is not its plan (%v)", name, err)
			}
		}
	}
	var reports [2]Report
	for run := range reports {
		if err := json.Unmarshal(files[ReportFile][run], &reports[run]); err != nil {
			t.Fatal(err)
		}
		reports[run].PlanSeconds, reports[run].Base.PlanSeconds = 0, 0
	}
	if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
		t.Error(diff)
	}
	delete(files, ReportFile)
	for name, both := range files {
		if !bytes.Equal(both[0], both[1]) {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

func TestExplain(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	view := viewOf(t, r)
	for src := range view.Servers() {
		for dst := range view.Servers() {
			x, err := Explain(ft, r.Tables, view, src, dst)
			if src == dst {
				if err == nil {
					t.Errorf("a transfer from %d to itself is explained", src)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want := 3
			if x.Src.Leaf == x.Dst.Leaf {
				want = 1
			}
			if len(x.Hops) != want || want == 3 && x.Hops[1].Switch != x.Spine || !strings.HasPrefix(x.Hops[want-1].To, x.Dst.Name) {
				t.Errorf("from %s to %s: %+v", x.Src.Name, x.Dst.Name, x)
			}
		}
	}
}

func viewOf(t testing.TB, r *Result) *phasetable.View {
	t.Helper()
	data, err := phasetable.Encode(r.Table(1))
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// TestFilesHaveNumbers: a plan in files has a number of its own, the same each time, and its
// successor has another one, by which programs that read the file take it up.
func TestFilesHaveNumbers(t *testing.T) {
	number := func(dead ...[2]int) (numbers [2]uint64) {
		r, err := Make(t.Context(), fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, dead...), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := r.WriteDir(dir); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{BinaryFile, BaseBinaryFile} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			view, err := phasetable.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			numbers[i] = view.Epoch()
		}
		return numbers
	}
	healthy, again, damaged := number(), number(), number([2]int{0, 1})
	if healthy != again {
		t.Errorf("the same plan has numbers %d and %d", healthy, again)
	}
	for i := range healthy {
		if healthy[i] == 0 || damaged[i] == 0 || healthy[i] == damaged[i] || healthy[i] >= 1<<53 {
			t.Errorf("plans have numbers %d and %d", healthy, damaged)
		}
	}
}

func TestDirectory(t *testing.T) {
	hosts := []topology.Host{{}, {EndPort: topology.EndPort{GUID: 7, LID: 9, LMC: 2}, Leaf: 3, Name: "a"}}
	if d := Directory(hosts, []int{1}); len(d) != 1 || d[0] != (phasetable.ServerEntry{GUID: 7, LID: 9, LMC: 2, Leaf: 3, Name: "a"}) {
		t.Errorf("%+v", d)
	}
}

package failures

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestCases counts parts and failures of the tree of the paper, and of one of three levels.
func TestCases(t *testing.T) {
	for _, c := range []struct {
		fabric                  *topology.Fabric
		cables, switches, pairs int
	}{
		{fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), 360, 38, 398*397/2 - 2*360},
		{fabgen.GenerateTree(fabgen.KAry(4)), 32, 20, 52*51/2 - 2*32},
	} {
		parts := Parts(c.fabric)
		labels := map[string]bool{}
		for i := range parts {
			labels[parts[i].Label] = true
			if is := parts[i].of[1] == topology.None; is != (i >= c.cables) {
				t.Errorf("part %d, %s: a switch: %v", i, parts[i].Label, is)
			}
		}
		if len(parts) != c.cables+c.switches || len(labels) != len(parts) {
			t.Errorf("%d parts of %d names, want %d cables and %d switches", len(parts), len(labels), c.cables, c.switches)
		}
		if n := len(Cases(parts, 1)); n != len(parts) {
			t.Errorf("%d single failures of %d parts", n, len(parts))
		}
		if n := len(Cases(parts, 2)); n != len(parts)+c.pairs {
			t.Errorf("%d failures of up to two parts, want %d and %d", n, len(parts), c.pairs)
		}
	}
}

// TestShards checks that shards divide the cases, and which texts are none.
func TestShards(t *testing.T) {
	cases := Cases(make([]Part, 13), 1)
	for of := 1; of <= 20; of++ {
		var all []Case
		for i := range of {
			var s Shard
			if err := s.Set(fmt.Sprintf("%d/%d", i+1, of)); err != nil {
				t.Fatal(err)
			}
			all = append(all, s.Cases(cases)...)
		}
		if !reflect.DeepEqual(all, cases) {
			t.Errorf("%d shards have %v", of, all)
		}
	}
	for _, text := range []string{"", "1", "0/4", "5/4", "1/10000", "a/2", "1/b", "-1/2"} {
		if err := new(Shard).Set(text); err == nil {
			t.Errorf("%q is taken for a shard", text)
		}
	}
}

// fake plans a fabric by the number of its cables.
func fake(_ context.Context, f *topology.Fabric) (*Planned, error) {
	cables := 0
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			cables += len(f.Trunks(int32(i)))
		}
	}
	if cables%5 == 0 {
		return nil, fmt.Errorf("there are %d", cables)
	}
	p := &Planned{Length: phasetable.Length{Engine: "fake", Phases: cables, LowerBound: cables - cables%2}, Unreachable: cables % 3}
	if cables%7 > 0 {
		p.Base = &phasetable.Length{Engine: "fake", Phases: cables + 1, LowerBound: 1}
	}
	return p, nil
}

func planned(t *testing.T, atATime int) []Failure {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	tree := fabgen.Fitted(t, f)
	tables, err := lft.Build(tree)
	if err != nil {
		t.Fatal(err)
	}
	survey, err := sim.NewSurvey(f, tables, f.ConnectedHosts())
	if err != nil {
		t.Fatal(err)
	}
	parts := Parts(f)
	all, err := Plan(t.Context(), f, survey, parts, Cases(parts, atATime), fake, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFolder writes shards in any order, reads them, and finds files that are not whole or of
// other inputs.
func TestFolder(t *testing.T) {
	all := planned(t, 2)
	d := Folder{t.TempDir(), "these"}
	of := 5
	for _, i := range []int{3, 1, 5, 2} {
		if err := d.Write(Shard{i, of}, all[len(all)*(i-1)/of:len(all)*i/of]); err != nil {
			t.Fatal(err)
		}
	}
	if _, missing, err := d.Merge(of); err != nil || !slices.Equal(missing, []int{4}) {
		t.Fatalf("missing %v, %v", missing, err)
	}
	if err := d.Write(Shard{4, of}, all[len(all)*3/of:len(all)*4/of]); err != nil {
		t.Fatal(err)
	}
	merged, missing, err := d.Merge(of)
	if err != nil || missing != nil || !reflect.DeepEqual(merged, all) {
		t.Fatalf("missing %v, %v: %v, want %v", missing, err, merged, all)
	}
	whole, err := os.ReadFile(filepath.Join(d.Dir, whole))
	if err != nil || bytes.Count(whole, []byte("\n")) != len(all)+1 {
		t.Errorf("%v in %s", err, whole)
	}
	if _, err := (Folder{d.Dir, "others"}).Read(Shard{4, of}); err == nil || !strings.Contains(err.Error(), "another fabric") {
		t.Errorf("another's inputs: %v", err)
	}
	path := d.path(Shard{4, of})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(text)-1; n += 7 {
		if err := os.WriteFile(path, text[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if some, err := d.Read(Shard{4, of}); err == nil || !strings.Contains(err.Error(), "remove") {
			t.Fatalf("%d of %d bytes are read as %v, %v", n, len(text), some, err)
		}
	}
}

// TestRank ranks failures and sums them up.
func TestRank(t *testing.T) {
	all := planned(t, 2)
	sums := Summarize(all)
	Rank(all)
	plans := 0
	for i := range all {
		if all[i].Planned != nil {
			plans++
		}
		if i == 0 {
			continue
		}
		a, b := &all[i-1], &all[i]
		if b.Planned == nil && a.Planned != nil || a.Planned != nil && b.Planned != nil && (a.Phases < b.Phases || a.Phases == b.Phases && a.Cut < b.Cut) {
			t.Errorf("%+v comes before %+v", a, b)
		}
	}
	if len(sums) != 2 || sums[0].Failures+sums[1].Failures != len(all) || sums[0].NoPlan+sums[1].NoPlan != len(all)-plans {
		t.Errorf("%d failures, %d plans: %+v", len(all), plans, sums)
	}
	// All but those of one cable have 18 cable ends less 2, all but two cables less 4.
	if sums[0].Longest != 16 || sums[0].Parts != 1 || sums[1].Longest != 14 || sums[1].Parts != 2 {
		t.Errorf("%+v", sums)
	}
}

// TestPlanEnds checks that planning ends with its context, and that no failure is then taken
// for one without a plan.
func TestPlanEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	tables, err := lft.Build(fabgen.Fitted(t, f))
	if err != nil {
		t.Fatal(err)
	}
	survey, err := sim.NewSurvey(f, tables, f.ConnectedHosts())
	if err != nil {
		t.Fatal(err)
	}
	parts := Parts(f)
	_, err = Plan(ctx, f, survey, parts, Cases(parts, 1), func(ctx context.Context, _ *topology.Fabric) (*Planned, error) {
		cancel()
		return nil, ctx.Err()
	}, func() {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

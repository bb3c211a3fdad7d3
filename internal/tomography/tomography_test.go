package tomography

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// bench is a fabric with the exchange of all its hosts in step, on its tables.
type bench struct {
	links     *Links
	parts     []Part
	transfers []Transfer
	all       int32 // links
}

func newBench(t *testing.T, f *topology.Fabric, tables *lft.Tables, exchanges int) *bench {
	t.Helper()
	b := &bench{links: Of(f)}
	b.parts = b.links.Parts()
	hosts := f.ConnectedHosts()
	for k := range exchanges * (len(hosts) - 1) {
		for i := range hosts {
			from, to := &hosts[i], &hosts[(i+k%(len(hosts)-1)+1)%len(hosts)]
			way, err := b.links.Way(tables, from.GUID, to.LID)
			if err != nil {
				t.Fatal(err)
			}
			b.transfers = append(b.transfers, Transfer{Phase: int32(k), Src: from.GUID, Dst: to.GUID, Links: way})
			b.all = max(b.all, slices.Max(way)+1)
		}
	}
	return b
}

// measure gives each transfer a time: that of the slowest link of its way, which noise lengthens
// or shortens, and in one case of a hundred, like an interrupt, lengthens by up to a half.
func (b *bench) measure(rng *rand.Rand, slow []float64, noise float64) {
	for i := range b.transfers {
		t := &b.transfers[i]
		t.Took = 1
		for _, l := range t.Links {
			t.Took = max(t.Took, 1+slow[l])
		}
		t.Took *= math.Exp(noise * rng.NormFloat64())
		if rng.IntN(100) == 0 {
			t.Took *= 1 + rng.Float64()/2
		}
	}
}

// TestDraws slows one to three parts in random exchanges, and none in others. It counts the
// parts that are named, alone or together with what is not told apart from them, and the
// exchanges without a fault that name one. FORS_LONG=1 draws 1000 of each.
func TestDraws(t *testing.T) {
	draws := 20
	if os.Getenv("FORS_LONG") != "" {
		draws = 1000
	}
	two := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
	tables, err := lft.Build(fabgen.Fitted(t, two))
	if err != nil {
		t.Fatal(err)
	}
	three := fabgen.GenerateTree(fabgen.KAry(8))
	podTables, err := lft.BuildPods(t.Context(), fabgen.FittedPods(t, three), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    *bench
		weak float64 // share of slowdowns of 5 % that must be named
	}{
		{"FT(2;20,18)", newBench(t, two, tables, 1), .95},
		{"three levels, 128 hosts", newBench(t, three, podTables, 1), .7},
		{"three levels, 128 hosts, two exchanges", newBench(t, three, podTables, 2), .95},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		b := c.b
		named, faults := map[bool]int{}, map[bool]int{}
		wrong, alone, alarms := 0, 0, 0
		var errors []float64
		for range draws {
			slow := make([]float64, b.all)
			want := map[string]float64{}
			taken := map[int32]bool{}
			for range 1 + rng.IntN(3) {
				p := &b.parts[rng.IntN(len(b.parts))]
				if len(p.Links) > 2 || slices.ContainsFunc(p.Links, func(l int32) bool { return taken[l] }) {
					continue // of switches there are few
				}
				by := .05
				if rng.IntN(2) == 0 {
					by = .15 + .35*rng.Float64()
				}
				for _, l := range p.Links {
					taken[l] = true
					slow[l] = by
				}
				want[p.Name] = by
			}
			b.measure(rng, slow, .1)
			r, err := slowest(b.transfers, b.parts)
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{} // by name, or among what is not told apart
			for i := range r.Slow {
				x := &r.Slow[i]
				meant := slices.ContainsFunc(append([]string{x.Name}, x.Or...), func(name string) bool {
					found[name] = true
					return want[name] > 0
				})
				switch {
				case !meant:
					wrong++
					t.Logf("%s: %v are slow, and named are %v", c.name, want, describe(r))
				case want[x.Name] > 0:
					errors = append(errors, math.Abs(x.Slowdown-want[x.Name]))
					if x.Or == nil {
						alone++
					}
				}
			}
			for name, by := range want {
				strong := by >= .15
				faults[strong]++
				if found[name] {
					named[strong]++
				} else if strong {
					t.Logf("%s: %s, slower by %.3f, is not named: %v", c.name, name, by, describe(r))
				}
			}
			b.measure(rng, make([]float64, b.all), .1)
			if r, err = slowest(b.transfers, b.parts); err != nil {
				t.Fatal(err)
			}
			if len(r.Slow) > 0 {
				alarms++
				t.Logf("%s: without a fault %v", c.name, describe(r))
			}
		}
		t.Logf("%s, %d draws: %d of %d slowdowns of 15 to 50 %% named, %d of %d of 5 %%, %d of all without another, %d wrong names, %d false alarms, median error of a slowdown %.4f",
			c.name, draws, named[true], faults[true], named[false], faults[false], alone, wrong, alarms, median(errors))
		if float64(named[true]) < .99*float64(faults[true]) || float64(named[false]) < c.weak*float64(faults[false])-3*math.Sqrt(c.weak*(1-c.weak)*float64(faults[false])) {
			t.Errorf("%s: too few are named", c.name)
		}
		if alarms > 1+draws/1000 || wrong > 1+draws/50 {
			t.Errorf("%s: too many names that are wrong", c.name)
		}
	}
}

func describe(r *api.Measured) (list []string) {
	for i := range r.Slow {
		list = append(list, fmt.Sprintf("%s by %.3f, score %.1f, or %v", r.Slow[i].Name, r.Slow[i].Slowdown, r.Slow[i].Score, r.Slow[i].Or))
	}
	return list
}

// small is a bench of a tree of 16 hosts.
func small(t *testing.T) *bench {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})
	tables, err := lft.Build(fabgen.Fitted(t, f))
	if err != nil {
		t.Fatal(err)
	}
	return newBench(t, f, tables, 1)
}

func (b *bench) part(t *testing.T, like string) *Part {
	t.Helper()
	i := slices.IndexFunc(b.parts, func(p Part) bool { return strings.HasPrefix(p.Name, like) })
	if i < 0 {
		t.Fatalf("no part is called like %s", like)
	}
	return &b.parts[i]
}

// bound is the share of slow links, and of slow links and cables, that any method names at most in
// an exchange, with a slowdown x, noise σ and false alarms in a share of all exchanges. The best
// one takes the part whose likelihood ratio is largest, if that exceeds a number.
func (b *bench) bound(x, noise, alarms float64) (ofLinks, ofBoth float64) {
	passes := map[int32]float64{}
	for i := range b.transfers {
		for _, l := range b.transfers[i].Links {
			passes[l]++
		}
	}
	tail := func(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
	best := func(links int) float64 {
		var d []float64
		for i := range b.parts {
			n := 0.0
			for _, l := range b.parts[i].Links {
				n += passes[l]
			}
			if n > 0 && len(b.parts[i].Links) <= links {
				d = append(d, math.Sqrt(n)*math.Log1p(x)/noise)
			}
		}
		sum := func(of func(d float64) float64) (s float64) {
			for _, d := range d {
				s += of(d)
			}
			return s
		}
		low, high := 0.0, 100.0
		for range 100 {
			c := (low + high) / 2
			if sum(func(d float64) float64 { return tail(d/2 + c/d) }) > alarms {
				low = c
			} else {
				high = c
			}
		}
		return sum(func(d float64) float64 { return tail(low/d - d/2) }) / float64(len(d))
	}
	return best(1), best(2)
}

// TestBound slows one link or cable in exchanges on three levels by 5 %. It compares the share that is
// named with what any method could name.
func TestBound(t *testing.T) {
	draws := 60
	if os.Getenv("FORS_LONG") != "" {
		draws = 2000
	}
	three := fabgen.GenerateTree(fabgen.KAry(8))
	tables, err := lft.BuildPods(t.Context(), fabgen.FittedPods(t, three), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, three, tables, 1)
	rng := rand.New(rand.NewPCG(7, 1))
	named, all := [3]int{}, [3]int{}
	for range draws {
		p := &b.parts[rng.IntN(len(b.parts))]
		for len(p.Links) > 2 {
			p = &b.parts[rng.IntN(len(b.parts))]
		}
		slow := make([]float64, b.all)
		for _, l := range p.Links {
			slow[l] = .05
		}
		b.measure(rng, slow, .1)
		r, err := slowest(b.transfers, b.parts)
		if err != nil {
			t.Fatal(err)
		}
		all[len(p.Links)]++
		if slices.ContainsFunc(r.Slow, func(s api.SlowPart) bool { return s.Name == p.Name || slices.Contains(s.Or, p.Name) }) {
			named[len(p.Links)]++
		}
	}
	ofLinks, ofBoth := b.bound(.05, .1, alarm)
	share := float64(named[1]+named[2]) / float64(draws)
	t.Logf("%d of %d links and %d of %d cables are named, %.3f of both; at most %.3f of links and %.3f of both can be", named[1], all[1], named[2], all[2], share, ofLinks, ofBoth)
	deviation := math.Sqrt(ofBoth * (1 - ofBoth) / float64(draws))
	if share > ofBoth+3*deviation || share < ofBoth-.07-3*deviation {
		t.Errorf("%.3f of the parts are named, and %.3f can be", share, ofBoth)
	}
	for alarms, want := range map[float64]float64{1e-3: .825, 1e-2: .915} {
		if _, have := b.bound(.05, .1, alarms); math.Abs(have-want) > .005 {
			t.Errorf("with %v false alarms %.3f can be named, want %.3f", alarms, have, want)
		}
	}
}

// TestSwitch checks that a slow switch is one part.
func TestSwitch(t *testing.T) {
	b := small(t)
	slow := make([]float64, b.all)
	spine := b.parts[slices.IndexFunc(b.parts, func(p Part) bool { return p.Name == "Spine002" })]
	for _, l := range spine.Links {
		slow[l] = .3
	}
	b.measure(rand.New(rand.NewPCG(2, 1)), slow, .05)
	r, err := slowest(b.transfers, b.parts)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Slow) != 1 || r.Slow[0].Name != "Spine002" || math.Abs(r.Slow[0].Slowdown-.3) > 2*r.Slow[0].Error {
		t.Errorf("%v", describe(r))
	}
}

// TestClocks gives each host a clock of its own. A slow cable is found all the same.
func TestClocks(t *testing.T) {
	b := small(t)
	slow := make([]float64, b.all)
	link := b.part(t, "Leaf001 port 6 → ")
	slow[link.Links[0]] = .4
	rng := rand.New(rand.NewPCG(3, 1))
	b.measure(rng, slow, .05)
	clock := map[ib.GUID]float64{}
	for i := range b.transfers {
		x := &b.transfers[i]
		for _, host := range []ib.GUID{x.Src, x.Dst} {
			if _, has := clock[host]; !has {
				clock[host] = 100 * rng.NormFloat64()
			}
		}
		x.Took += clock[x.Dst] - clock[x.Src]
	}
	if _, err := slowest(b.transfers, b.parts); err == nil {
		t.Error("negative times are taken")
	}
	r, err := b.links.Find(b.transfers, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Slow) != 1 || r.Slow[0].Name != link.Name {
		t.Errorf("%v", describe(r))
	}
}

// TestAlike checks that parts which the same transfers pass are named together.
func TestAlike(t *testing.T) {
	parts := []Part{{Name: "a", Links: []int32{0}}, {Name: "b", Links: []int32{1}}, {Name: "c", Links: []int32{2}}}
	var transfers []Transfer
	rng := rand.New(rand.NewPCG(4, 1))
	for i := range int32(400) {
		x := Transfer{Phase: i / 20, Took: math.Exp(.05 * rng.NormFloat64()), Links: []int32{2}}
		if i%4 == 0 {
			x = Transfer{Phase: i / 20, Took: 1.5 * x.Took, Links: []int32{0, 1}}
		}
		transfers = append(transfers, x)
	}
	r, err := slowest(transfers, parts)
	if err != nil || len(r.Slow) != 1 || r.Slow[0].Name != "a" || !slices.Equal(r.Slow[0].Or, []string{"b"}) {
		t.Errorf("%v, %v", describe(r), err)
	}
}

// TestNothing checks inputs from which nothing follows.
func TestNothing(t *testing.T) {
	if r, err := slowest(nil, nil); err != nil || len(r.Slow) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, took := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := slowest([]Transfer{{Took: took}}, nil); err == nil {
			t.Errorf("a time of %v is taken", took)
		}
	}
}

// slowest finds the slow parts.
func slowest(transfers []Transfer, parts []Part) (*api.Measured, error) {
	_, r, err := find(transfers, parts)
	return r, err
}

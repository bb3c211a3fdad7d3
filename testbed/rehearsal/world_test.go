package rehearsal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// healthy is the world of a fabric before all events.
func healthy(t *testing.T, f *topology.Fabric) *world {
	t.Helper()
	fabgen.AssignLIDs(f, 2)
	base, err := topology.Recognise(f)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []int32
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter && f.Nodes[i].Ports[1].Connected() {
			hosts = append(hosts, int32(i))
		}
	}
	w, err := newWorld(f, base, hosts[0], hosts[len(hosts)-1])
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestDraw draws events on many fabrics. The same seed gives the same; every kind comes; and a
// cable is up if and only if neither it nor a switch at its end was taken away after it came
// back last.
func TestDraw(t *testing.T) {
	fabrics := fabgen.LookAlikes(1)
	fabrics["pods"] = fabgen.GenerateTree(fabgen.KAry(4))
	seen, planned := map[string]int{}, 0
	for _, name := range slices.Sorted(maps.Keys(fabrics)) {
		if _, err := topology.Recognise(fabrics[name]); err != nil || len(fabrics[name].Nodes) > 700 {
			continue
		}
		planned++
		w := healthy(t, fabrics[name])
		again := *w
		r1, r2 := rand.New(rand.NewPCG(3, 19)), rand.New(rand.NewPCG(3, 19))
		gone := map[string]bool{}
		for range 60 {
			e := w.draw(r1)
			if same := again.draw(r2); fmt.Sprint(e) != fmt.Sprint(same) {
				t.Fatalf("%s: one seed gave %v and %v", name, e, same)
			}
			seen[e.change]++
			seen[e.with]++
			for _, part := range e.where {
				switch e.change {
				case "pull", "host-pull", "switch-off":
					gone[part] = true
				case "plug", "switch-on":
					delete(gone, part)
				}
			}
			f := w.start.Fabric.Clone()
			for part := range gone {
				if _, err := f.Fail(part); err != nil && !strings.Contains(err.Error(), "has no cable") {
					t.Fatal(err)
				}
			}
			down := w.down()
			for i := range f.Nodes {
				for p := range f.Nodes[i].Ports {
					at := topology.PortRef{Node: int32(i), Port: uint8(p)}
					if was := w.ports(part{at: at}); p > 0 && len(was) == 1 && slices.Contains(down, was[0]) == f.At(at).Connected() {
						t.Fatalf("%s: after %v %s is connected: %v", name, e, f.PortLabel(at), f.At(at).Connected())
					}
				}
			}
		}
	}
	for _, kind := range []string{"pull", "plug", "host-pull", "switch-off", "switch-on", "drain", "undrain", "job", "nothing", "kill-forsd", "kill-opensm", "hang-forsd", "handover"} {
		if seen[kind] < 4 {
			t.Errorf("%s came %d times on %d fabrics", kind, seen[kind], planned)
		}
	}
}

// TestPicture counts the cables that dead ones cut off from the managers, without the dead ones.
func TestPicture(t *testing.T) {
	w := healthy(t, fabgen.GenerateTree(fabgen.KAry(4)))
	dead := strings.Fields("Leaf004/3 Leaf005/3 Leaf006/3 Leaf007/3 Mid002/3 Mid004/4 Mid006/4 Mid000/3")
	for n, name := range dead {
		i := slices.IndexFunc(w.cables, func(p part) bool { return p.name == name })
		w.dead = append(w.dead, w.cables[i])
		now, err := w.now()
		if err != nil {
			t.Fatal(err)
		}
		got, want := 0, n+1
		for _, m := range strings.Fields(strings.Trim(strings.SplitAfter(picture(describe.Topology(now, time.Time{})), ": ")[1], "[]"))[1:] {
			var one int
			if _, err := fmt.Sscan(m, &one); err != nil {
				t.Fatal(err)
			}
			got += one
		}
		if want == len(dead) {
			want += 2 // those of Mid004 and Mid006 to Top000
		}
		if got != want {
			t.Errorf("without %v %d cables are missing, want %d", dead[:n+1], got, want)
		}
	}
}

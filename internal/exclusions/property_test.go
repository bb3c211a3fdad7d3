package exclusions

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHistories draws random orders, looks and times, and checks the properties that operators
// and the daemon rely on.
func TestHistories(t *testing.T) {
	n := 1
	if os.Getenv("FORS_LONG") != "" {
		n = 1000
	}
	for range n {
		rapid.Check(t, history)
	}
}

// told is the test's own record of a part.
type told struct {
	order Drain
	out   bool      // it must be out of the plan
	free  time.Time // since when looks have found no use of the drained part
}

func history(t *rapid.T) {
	m, now := NewDrains(settings()), begin
	var kept []Drain // as stored by the last Keep or Follow
	var out []Part   // as in the last Follow
	known := map[Part]*told{}
	parts := []Part{{Cable, 1, 4}, {Cable, 1, 5}, {Spine, 3, 0}, {Leaf, 2, 0}, {Leaf, 1, 0}}
	some := func(p Part) Drain {
		d := Drain{Part: p, Name: p.String()}
		if rapid.Bool().Draw(t, "later") {
			d.At = now.Add(time.Duration(rapid.IntRange(-5, 20).Draw(t, "at")) * time.Second)
		}
		if rapid.Bool().Draw(t, "ends") {
			d.Until = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "until")) * time.Second)
		}
		return d
	}
	for range rapid.IntRange(1, 40).Draw(t, "events") {
		p := rapid.SampledFrom(parts).Draw(t, "part")
		var e Event
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0, 1:
			d := some(p)
			if k := known[p]; k != nil && k.out && !now.Before(d.At) {
				d.At = k.order.At // it continues
			} else {
				known[p] = &told{}
			}
			known[p].order = d
			e = Order{d}
		case 2:
			delete(known, p)
			e = End{p}
		case 3:
			e = Settled{}
		case 4:
			uses := map[Part][]string{}
			for _, p := range parts {
				switch rapid.IntRange(0, 3).Draw(t, "use") {
				case 0:
					uses[p] = []string{"something"}
					if known[p] != nil {
						known[p].free = time.Time{}
					}
				case 1, 2:
					uses[p] = nil
					if k := known[p]; k != nil && k.out && k.free.IsZero() {
						k.free = now
					}
				}
			}
			e = Looked{uses}
		case 5:
			now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "later by")) * time.Second)
			e = Tick{}
		case 6:
			m, e = NewDrains(settings()), Load{Drains: kept}
			for _, k := range known {
				k.free = time.Time{} // it must be looked at again
			}
		}
		for p, k := range known {
			if !k.order.Until.IsZero() && !now.Before(k.order.Until) {
				delete(known, p)
			} else if !k.out {
				k.out = !now.Before(k.order.At)
			}
		}
		for _, a := range m.Step(now, e) {
			switch a.(type) {
			case Keep:
				kept = m.List()
			case Follow:
				kept, out = m.List(), active(m.List())
			}
		}
		judge(t, m, now, known, kept, out)
	}
}

func active(all []Drain) (out []Part) {
	for i := range all {
		if all[i].Active() {
			out = append(out, all[i].Part)
		}
	}
	return out
}

func judge(t *rapid.T, m *Drains, now time.Time, known map[Part]*told, kept []Drain, out []Part) {
	list := m.List()
	if !reflect.DeepEqual(list, kept) && len(list)+len(kept) > 0 {
		t.Fatalf("%+v was not stored, but %+v", list, kept)
	}
	if got := active(list); !slices.Equal(got, out) {
		t.Fatalf("%v are out, and nobody was told but of %v", got, out)
	}
	if len(list) != len(known) {
		t.Fatalf("drains of %v, want those of %v", list, slices.Collect(maps.Keys(known)))
	}
	for _, d := range list {
		k := known[d.Part]
		if k == nil || d.Active() != k.out {
			t.Fatalf("%v is %s at %v: %+v", d.Part, d.State, now.Sub(begin), k)
		}
		safeAt := k.free
		if d.Kind == Leaf {
			safeAt = safeAt.Add(settings().Grace)
		}
		if safe := !k.free.IsZero() && !now.Before(safeAt); (d.State == Safe) != safe {
			t.Fatalf("%v is %s at %v, and free since %v", d.Part, d.State, now.Sub(begin), k.free.Sub(begin))
		}
	}
	if wake := m.Wake(); !wake.IsZero() && wake.Before(now.Add(-settings().Look)) {
		t.Fatalf("it wants to be woken at %v, and it is %v", wake.Sub(begin), now.Sub(begin))
	}
}

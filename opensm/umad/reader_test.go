package umad

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

var small = fabgen.Spec{Spines: 3, Leaves: 4, LMC: 5}

// check compares tables with those of the fake, switch by switch; absent names
// those that must not be there.
func (w *fakeFabric) check(got *lft.Tables, absent ...string) {
	w.t.Helper()
	if got == nil {
		w.t.Fatal("no tables")
	}
	next := 0
	for i := range w.fabric.Nodes {
		n := &w.fabric.Nodes[i]
		if n.Kind != topology.Switch || slices.Contains(absent, n.Name) {
			continue
		}
		if next == len(got.Switches) {
			w.t.Fatalf("the table of %s is missing", n)
		}
		want := lft.Table{GUID: n.GUID, LID: n.LID(), Name: n.Name, Ports: len(n.Ports) - 1, Out: w.tables[n.GUID]}
		if d := cmp.Diff(want, got.Switches[next]); d != "" {
			w.t.Errorf("table of %s (-want +got):\n%s", n, d)
		}
		next++
	}
	if next != len(got.Switches) {
		w.t.Errorf("%d tables, want %d", len(got.Switches), next)
	}
}

// node is the index of the node with a description.
func (w *fakeFabric) node(name string) int32 {
	return int32(slices.IndexFunc(w.fabric.Nodes, func(n topology.Node) bool { return n.Name == name }))
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(w *fakeFabric)
		absent []string // switches that must be named
		words  string   // in the error
	}{
		{name: "as it should be", spoil: func(*fakeFabric) {}},
		{name: "unruly", spoil: func(w *fakeFabric) { w.unruly(7) }},
		{name: "top at a block's edge", spoil: func(w *fakeFabric) {
			for g := range w.tables {
				w.tables[g] = append(w.tables[g], make([]uint8, 65-len(w.tables[g])%64)...)
			}
		}},
		{name: "no LID leads anywhere", spoil: func(w *fakeFabric) { clear(w.byLID) }},
		{name: "LIDs have moved", spoil: func(w *fakeFabric) {
			a, b := w.fabric.Nodes[w.node("Leaf001")].LID(), w.fabric.Nodes[w.node("Spine002")].LID()
			w.byLID[a], w.byLID[b] = w.byLID[b], w.byLID[a]
		}},
		{name: "a way breaks in mid-read", spoil: func(w *fakeFabric) {
			lid, blocks := w.fabric.Nodes[w.node("Leaf002")].LID(), 0
			w.mangle = func(node int32, m *mad) (int, bool) {
				if node == w.node("Leaf002") && m.attribute() == 0x19 {
					if blocks++; blocks == 3 {
						delete(w.byLID, lid)
					}
				}
				return 1, false
			}
		}},
		{name: "a switch is silent", absent: []string{"Leaf001"}, words: "does not answer NodeInfo 0 by the route over ports 1,", spoil: func(w *fakeFabric) {
			w.mangle = func(node int32, _ *mad) (int, bool) {
				if node == w.node("Leaf001") {
					return 0, false
				}
				return 1, false
			}
		}},
		{name: "a switch vanishes in mid-read", absent: []string{"Spine001"}, words: "does not answer", spoil: func(w *fakeFabric) {
			asked := 0
			w.mangle = func(node int32, _ *mad) (int, bool) {
				if node == w.node("Spine001") {
					asked++
				}
				return 1, node == w.node("Spine001") && asked > 5
			}
		}},
		{name: "other nodes at LID and route", absent: []string{"Leaf003", "Spine000"}, words: "now", spoil: func(w *fakeFabric) {
			for _, name := range []string{"Leaf003", "Spine000"} {
				w.fabric.Nodes[w.node(name)].GUID ^= 1 << 40
			}
		}},
		{name: "a status", absent: []string{"Leaf001"}, words: "answers LinearForwardingTable 0 with status 0x001c", spoil: func(w *fakeFabric) {
			w.status = func(node int32, attr uint16) uint16 {
				if node == w.node("Leaf001") && attr == 0x19 {
					return 0x1c
				}
				return 0
			}
		}},
		{name: "busy once", spoil: func(w *fakeFabric) {
			busy := map[uint16]bool{}
			w.status = func(_ int32, attr uint16) uint16 {
				if !busy[attr] {
					busy[attr] = true
					return 1
				}
				return 0
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFake(t, small)
				known := w.fabric.Clone() // what the manager saw before
				c.spoil(w)
				r := w.reader()
				got, err := r.Tables(t.Context(), known)
				if closing := r.Close(); closing == nil {
					t.Error("the wire was not closed")
				}
				w.fabric = known
				w.check(got, c.absent...)
				for _, name := range c.absent {
					if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), c.words) {
						t.Errorf("error %v; want %s and %q", err, name, c.words)
					}
				}
				if len(c.absent) == 0 && err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestWindow counts the questions that are under way at once.
func TestWindow(t *testing.T) {
	for _, o := range []Options{{}, {Window: 1}, {Window: 30, PerNode: 5}, {PerNode: 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := newFake(t, fabgen.Spec{Spines: 8, Leaves: 8, LMC: 3})
			l := o.withDefaults()
			r := &Reader{loop: newLoop(w, l)}
			defer r.Close()
			got, err := r.Tables(t.Context(), w.fabric)
			if err != nil {
				t.Fatal(err)
			}
			w.check(got)
			if w.most != l.window || w.mostOf > l.perNode {
				t.Errorf("%d questions at once, %d of them to one node; want %d and at most %d", w.most, w.mostOf, l.window, l.perNode)
			}
			w.mostOf = 0
			if _, err := r.Ports(t.Context(), Node{LID: w.fabric.Nodes[w.node("Leaf001")].LID()}); err != nil || w.mostOf != min(l.window, l.perNode) {
				t.Errorf("%d questions to a node alone, %v; want %d", w.mostOf, err, min(l.window, l.perNode))
			}
		})
	}
}

// TestEnds ends bursts from outside: by their context, by a wire that fails, and
// by closing the reader.
func TestEnds(t *testing.T) {
	over := errors.New("over")
	for _, c := range []struct {
		name string
		end  func(w *fakeFabric, r *Reader, cancel context.CancelCauseFunc)
		want error
	}{
		{"context", func(_ *fakeFabric, _ *Reader, cancel context.CancelCauseFunc) { cancel(over) }, over},
		{"wire", func(w *fakeFabric, _ *Reader, _ context.CancelCauseFunc) { w.broken = over }, over},
		{"close", func(_ *fakeFabric, r *Reader, _ context.CancelCauseFunc) { go r.Close() }, errClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFake(t, small)
				r := w.reader()
				defer r.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ended := false
				w.mangle = func(_ int32, m *mad) (int, bool) {
					if !ended && m.attribute() == 0x19 && m.modifier() == 1 {
						ended = true
						c.end(w, r, cancel)
					}
					return 1, false
				}
				if got, err := r.Tables(ctx, w.fabric); got != nil || !errors.Is(err, c.want) {
					t.Errorf("%v, %v; want %v", got, err, c.want)
				}
			})
		})
	}
}

// TestAfterAnError: a wire that works again is used again.
func TestAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t, small)
		r := w.reader()
		defer r.Close()
		w.broken = errors.New("no buffers")
		if _, err := r.Tables(t.Context(), w.fabric); !errors.Is(err, w.broken) || !strings.Contains(err.Error(), "fake0:1") {
			t.Errorf("error %v", err)
		}
		w.broken = nil
		got, err := r.Tables(t.Context(), w.fabric)
		if err != nil {
			t.Error(err)
		}
		w.check(got)
	})
}

// TestPortsGoFirst reads ports while tables are being read: they are there long
// before the tables are.
func TestPortsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t, fabgen.Spec{Spines: 8, Leaves: 8, LMC: 5})
		r := w.reader()
		defer r.Close()
		leaf := &w.fabric.Nodes[w.node("Leaf001")]
		leaf.Ports[3].State = topology.Init
		type outcome struct {
			tables *lft.Tables
			err    error
			at     time.Time
		}
		done := make(chan outcome)
		go func() {
			got, err := r.Tables(t.Context(), w.fabric)
			done <- outcome{got, err, time.Now()}
		}()
		time.Sleep(100 * time.Microsecond)
		start := time.Now()
		ports, err := r.Ports(t.Context(), Node{GUID: leaf.GUID, LID: leaf.LID()})
		took := time.Since(start)
		if err != nil || len(ports) != len(leaf.Ports) {
			t.Fatal(len(ports), err)
		}
		for p := range ports {
			if ports[p].State != leaf.Ports[p].State || ports[p].Rate != (ib.Rate{Width: 4, Speed: ib.QDR}) {
				t.Errorf("port %d: %+v, want state %d", p, ports[p], leaf.Ports[p].State)
			}
		}
		all := <-done
		if all.err != nil {
			t.Error(all.err)
		}
		w.check(all.tables)
		if rest := all.at.Sub(start); took*2 > rest {
			t.Errorf("the ports took %v, the tables %v more", took, rest)
		}
	})
}

// TestSomePorts asks for those named alone.
func TestSomePorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t, small)
		r := w.reader()
		defer r.Close()
		leaf := &w.fabric.Nodes[w.node("Leaf001")]
		last := uint8(len(leaf.Ports) - 1)
		ports, err := r.Ports(t.Context(), Node{GUID: leaf.GUID, LID: leaf.LID()}, 1, last, 200)
		if err != nil || len(ports) != len(leaf.Ports) || len(w.asked) != 3 {
			t.Fatalf("%d ports by %d questions: %v; want %d by 3, for the node and two of its ports", len(ports), len(w.asked), err, len(leaf.Ports))
		}
		for p := range ports {
			if asked := p == 1 || p == int(last); asked != (ports[p].State == topology.Active) {
				t.Errorf("port %d: %+v", p, ports[p])
			}
		}
	})
}

func TestPortsRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t, small)
		r := w.reader()
		defer r.Close()
		lid := w.fabric.Nodes[w.node("Leaf001")].LID()
		for _, c := range []struct {
			node  Node
			words string
		}{
			{Node{GUID: 5}, "neither a LID nor a route"},
			{Node{GUID: 5, LID: lid}, "is 0x"},
			{Node{LID: 47000}, "does not answer NodeInfo 0 by LID 47000, asked 3 times"},
		} {
			if ports, err := r.Ports(t.Context(), c.node); ports != nil || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%+v: %v, %v; want %q", c.node, ports, err, c.words)
			}
		}
	})
}

// TestForeignFabric asks for the tables of a fabric that the local port is not
// part of.
func TestForeignFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t, small)
		r := w.reader()
		defer r.Close()
		if _, err := r.Tables(t.Context(), &topology.Fabric{}); err == nil || !strings.Contains(err.Error(), "not in this fabric") {
			t.Errorf("error %v", err)
		}
	})
}

// TestRoutes walks every directed route: it ends at its node, and passes no
// adapter.
func TestRoutes(t *testing.T) {
	w := newFake(t, fabgen.Spec{Spines: 4, Leaves: 5, Cables: 2})
	f := w.fabric
	f.Disconnect(topology.PortRef{Node: w.node("Leaf001"), Port: 5})
	cut := w.node("Hca0005")
	f.Disconnect(topology.PortRef{Node: cut, Port: 1})
	for i, route := range Routes(f, w.from.Node, 1) {
		at := w.from.Node
		for hop, p := range route {
			if hop > 0 && f.Nodes[at].Kind != topology.Switch || !f.Nodes[at].Ports[p].Up() {
				t.Fatalf("the route %v passes %s port %d", route, &f.Nodes[at], p)
			}
			at = f.Nodes[at].Ports[p].Peer
		}
		if int32(i) == cut {
			if route != nil {
				t.Errorf("a route %v to a node without a cable", route)
			}
		} else if route == nil || int(at) != i || len(route) > 4 {
			t.Errorf("the route %v ends at %s, not at %s", route, &f.Nodes[at], &f.Nodes[i])
		}
	}
}

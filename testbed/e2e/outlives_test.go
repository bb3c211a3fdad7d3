package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/arrival"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// losses are what a site's fabric has lost, cables between switches by one end each.
type losses struct {
	*test
	whole *topology.Fabric // as generated
	sm    int32            // the switch at which OpenSM is
	lost  map[topology.PortRef]bool
	rng   *rand.Rand
}

func newLosses(x *test, seed uint64) *losses {
	f := x.options.Fabric
	l := &losses{x, f, 0, map[topology.PortRef]bool{}, rand.New(rand.NewPCG(seed, 1))}
	for i := range f.Nodes {
		if f.Nodes[i].GUID.String() == x.options.Host {
			l.sm = f.Nodes[i].Ports[1].Peer
		}
	}
	return l
}

// end is the end of a cable by which it goes.
func (l *losses) end(r topology.PortRef) topology.PortRef {
	if p := l.whole.At(r); p.Peer < r.Node {
		return topology.PortRef{Node: p.Peer, Port: p.PeerPort}
	}
	return r
}

// toggle loses or returns a cable, or a whole switch that OpenSM is not at.
func (l *losses) toggle() {
	l.Helper()
	var switches []int32
	for i := range l.whole.Nodes {
		if l.whole.Nodes[i].Kind == topology.Switch {
			switches = append(switches, int32(i))
		}
	}
	s := switches[l.rng.IntN(len(switches))]
	var pull, put []topology.PortRef
	trunks := l.whole.Trunks(s)
	if s == l.sm || l.rng.IntN(3) > 0 {
		c := l.end(topology.PortRef{Node: s, Port: trunks[l.rng.IntN(len(trunks))]})
		if l.lost[c] {
			put = append(put, c)
		} else {
			pull = append(pull, c)
		}
	} else {
		away := l.rng.IntN(2) == 0
		for _, p := range trunks {
			if c := l.end(topology.PortRef{Node: s, Port: p}); l.lost[c] && !away {
				put = append(put, c)
			} else if !l.lost[c] && away {
				pull = append(pull, c)
			}
		}
	}
	if len(l.lost)+len(pull) > 2*len(switches) { // not all of the fabric
		pull, put = nil, slices.Collect(maps.Keys(l.lost))
	}
	l.change(pull, put)
}

// change pulls and puts back cables, and waits until OpenSM has swept once since.
func (l *losses) change(pull, put []topology.PortRef) {
	l.Helper()
	ports := func(refs []topology.PortRef) (ports []ibsim.Port) {
		for _, r := range refs {
			ports = append(ports, ibsim.Port{Node: l.whole.Nodes[r.Node].GUID.String(), Port: int(r.Port)})
		}
		return ports
	}
	l.ok(l.Sim.UnlinkAll(l.ctx, ports(pull)), l.Sim.RelinkAll(l.ctx, ports(put)))
	for _, c := range pull {
		l.lost[c] = true
	}
	for _, c := range put {
		delete(l.lost, c)
	}
	l.ok(l.SM.Sweep(l.ctx))
}

// arrives walks all LIDs through the tables of the switches, over the cables that there are.
func (l *losses) arrives(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(l.ManagerDir(), "guid2lid"))
	if err != nil {
		return err
	}
	ranges, err := topology.ReadGUID2LID(text)
	if err != nil {
		return err
	}
	f := l.whole.Clone()
	for _, e := range f.EndPorts() {
		p := f.At(e.PortRef)
		p.LID, p.LMC = ranges[e.GUID].Min, 0
	}
	if err := f.ApplyGUID2LID(ranges); err != nil {
		return err
	}
	for c := range l.lost {
		f.Disconnect(c)
	}
	tables, err := l.ReadTables(ctx)
	if err != nil {
		return err
	}
	if err := arrival.Check(f, l.sm, tables); err != nil {
		return fmt.Errorf("without %d cables: %w", len(l.lost), err)
	}
	return nil
}

func TestEnginesTmp(t *testing.T) {
	for _, engine := range []string{"updn"} {
		for shape, o := range outliving() {
			t.Run(engine+" "+shape, func(t *testing.T) {
				o.Engine = engine
				roots := filepath.Join(t.TempDir(), "roots")
				o.Conf = map[string]string{"root_guid_file": roots}
				x := newSite(t, 10*time.Minute, o)
				l := newLosses(x, 1)
				x.ok(os.WriteFile(roots, []byte(l.whole.Nodes[l.sm].GUID.String()+"\n"), 0o644))
				x.ok(x.StartOpenSM(x.ctx))
				bad := map[string]int{}
				for range 30 {
					l.toggle()
					if err := l.arrives(x.ctx); err != nil {
						bad[err.Error()]++
					}
				}
				t.Logf("%d: %v", len(bad), bad)
			})
		}
	}
}

// outliving are fabrics of two levels and of three.
func outliving() map[string]Options {
	return map[string]Options{
		"two levels":   {Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 5, Hosts: []int{3}}), LMC: 2},
		"three levels": {Fabric: fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2}), LMC: 2},
	}
}

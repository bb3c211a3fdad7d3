package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// sweeps are OpenSM's sweeps after one kind of change: how long each took from the change to
// its end, and how many blocks of tables it sent.
type sweeps struct {
	took   []time.Duration
	blocks []int
}

// sweeping times the sweep that a change causes.
func (s *sweeps) sweeping(l *losses, pull, put []topology.PortRef) {
	l.Helper()
	blocks, from, began := l.Sim.Blocks(), l.SM.LogSize(), time.Now()
	l.cables(pull, put)
	_, _, err := l.SM.WaitLog(l.ctx, ibsim.SubnetUp, from)
	l.ok(err)
	s.took = append(s.took, time.Since(began))
	l.ok(l.swept()) // sweeps that are still under way
	s.blocks = append(s.blocks, l.Sim.Blocks()-blocks)
}

func middle[T int | time.Duration](all []T) T {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// TestMendedSweeps makes cables die and come back while forsd is away, by the plugin and by
// files, and under OpenSM's min-hop. It prints medians of the sweeps, as rows of
// docs/reliability.md, and fails if mending by the plugin sends more than twice min-hop's
// blocks of tables. FORS_LONG=1 has larger fabrics and more cables; FORS_TABLE names a file.
func TestMendedSweeps(t *testing.T) {
	cables, shapes := many(4, 20), outliving()
	if long {
		shapes["two levels"] = lhcb()
		shapes["three levels"] = Options{Fabric: fabgen.GenerateTree(fabgen.KAry(6)), LMC: 2}
	}
	const minhop, plugin, files = "min-hop", "the plugin mends", "updn, by files"
	table := []byte("| Fabric | Tables | A cable dies: sweep, blocks | It is back: sweep, blocks |\n|---|---|---|---|\n")
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		median := map[string][2]int{}
		for _, way := range []string{minhop, plugin, files} {
			t.Run(shape+" "+way, func(t *testing.T) {
				o := shapes[shape]
				o.Manager = func(m *ibsim.OpenSMOptions) { m.Rival = true } // its datagrams are counted
				switch way {
				case minhop:
					o.Engine = "minhop"
				case plugin:
					o = byPlugin(t, o)
				}
				x := newSite(t, 10*time.Minute, o)
				if way == minhop {
					x.ok(x.StartOpenSM(x.ctx))
				} else {
					x.ok(x.Start(x.ctx))
					x.loaded()
					stopped.away(x)
				}
				l, dies, back := newLosses(x, 1), sweeps{}, sweeps{}
				l.ok(l.swept(), l.swept())
				for range cables {
					c := l.trunk()
					dies.sweeping(l, []topology.PortRef{c}, nil)
					back.sweeping(l, nil, []topology.PortRef{c})
				}
				median[way] = [2]int{middle(dies.blocks), middle(back.blocks)}
				table = fmt.Appendf(table, "| %s | %s | %d ms, %d | %d ms, %d |\n", shape, way,
					middle(dies.took).Milliseconds(), middle(dies.blocks), middle(back.took).Milliseconds(), middle(back.blocks))
			})
		}
		if a, b := median[plugin], median[minhop]; len(median) == 3 && (a[0] == 0 || a[0] > 2*b[0] || a[1] > 2*b[1]) {
			t.Errorf("%s: mending sends %v blocks, min-hop %v", shape, a, b)
		}
	}
	t.Logf("%d cables\n%s", cables, bytes.TrimSpace(table))
	if name := os.Getenv("FORS_TABLE"); name != "" {
		if err := os.WriteFile(name, table, 0o644); err != nil {
			t.Error(err)
		}
	}
}

package linkstate

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/histories"
	"github.com/forsd/forsd/topology"
)

// TestHistories drives the link state through random histories. The believed fabric is
// the one shown, without the cables that a switch has reported down, until a later sweep
// or the switch contradicts that. A switch is read after each trap, by one reading at a
// time. When all faults have ended, the actual fabric is believed.
func TestHistories(t *testing.T) {
	histories.Check(t, 5000, func(t *rapid.T) {
		m := newModel(t)
		m.step(Tick{})
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { m.change(rapid.IntRange(0, len(m.cables)-1).Draw(t, "cable")) },
			"trap": func(t *rapid.T) {
				if len(m.traps) == 0 {
					t.Skip("none")
				}
				i := rapid.IntRange(0, len(m.traps)-1).Draw(t, "trap")
				g := m.traps[i]
				m.traps = slices.Delete(m.traps, i, i+1)
				if rapid.IntRange(0, 3).Draw(t, "luck") > 0 {
					m.trap(g)
				}
			},
			"trapLogged": func(t *rapid.T) {
				m.trapLogged(m.whole.Nodes[rapid.IntRange(0, len(m.whole.Nodes)-1).Draw(t, "node")].GUID, rapid.IntRange(0, 2).Draw(t, "told") == 0)
			},
			"sweep": func(t *rapid.T) {
				if m.sweep == nil {
					m.begin()
				} else {
					m.show(rapid.Bool().Draw(t, "swept"))
				}
			},
			"visit": func(t *rapid.T) {
				if m.sweep == nil {
					t.Skip("no sweep")
				}
				c := rapid.IntRange(0, len(m.cables)-1).Draw(t, "cable")
				m.sweep.visit(c, m.cables[c].state)
			},
			"answer": func(t *rapid.T) {
				all := m.reading()
				if len(all) == 0 {
					t.Skip("none is being read")
				}
				m.answer(all[:rapid.IntRange(1, len(all)).Draw(t, "together")], rapid.IntRange(0, 5).Draw(t, "luck") == 0)
			},
			"pass": func(t *rapid.T) {
				m.pass(time.Duration(rapid.SampledFrom([]int{1, 20, 300, 1200, 40000}).Draw(t, "ms")) * time.Millisecond)
			},
			"teller": func(_ *rapid.T) {
				m.told = !m.told
				m.step(SweepsUntold{})
				m.sweep = nil
			},
			"hand": func(_ *rapid.T) { m.hand() },
			"retrain": func(t *rapid.T) {
				m.cables[rapid.IntRange(0, len(m.cables)-1).Draw(t, "cable")].rate = rapid.SampledFrom([]ib.Rate{whole, narrow}).Draw(t, "rate")
			},
			"hold": func(t *rapid.T) {
				m.held = nil
				if c := rapid.IntRange(-1, len(m.cables)-1).Draw(t, "cable"); c >= 0 {
					m.held = []ib.GUID{m.cables[c].ends[0].node, m.cables[c].ends[1].node}
				}
				m.step(HeldBack{m.held})
			},
			"notice": func(_ *rapid.T) { m.wants(); m.step(Noticed{}) },
			"order": func(_ *rapid.T) {
				m.dueSwept = m.now.Add(SweepDelay)
				m.step(SweepOrdered{})
			},
			"look": func(t *rapid.T) {
				if !m.looking {
					t.Skip("no discovery is under way")
				}
				m.look()
			},
		})
		m.comeToRest()
	})
}

// comeToRest lets all switches answer and the manager sweep. The actual fabric is
// believed afterwards.
func (m *model) comeToRest() {
	m.now = m.now.Add(time.Millisecond)
	m.told, m.rests = true, true
	m.step(SweepsUntold{})
	for range 2 {
		m.now = m.now.Add(time.Millisecond)
		for all := m.reading(); len(all) > 0; all = m.reading() {
			m.answer(all, false)
			m.now = m.now.Add(time.Millisecond)
		}
		m.begin()
		m.show(true)
	}
	for all := m.reading(); len(all) > 0; all = m.reading() {
		m.answer(all, false)
	}
	var lacks []topology.PortRef
	truth := m.whole.Clone()
	for c := range m.cables {
		for _, r := range m.cables[c].refs {
			truth.At(r).Rate = m.cables[c].rate
		}
		if m.cables[c].state == topology.Down {
			lacks = append(lacks, m.cables[c].refs[0])
		}
	}
	if want := m.blank(truth, lacks); m.blank(m.believe, nil).Hash() != want.Hash() {
		m.t.Fatalf("at rest another fabric is believed than there is: %v", topology.Diff(want, m.believe))
	}
}

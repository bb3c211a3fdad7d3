package linkstate

import (
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// This file derives from the model's history how the link state should behave.

// lost reports whether a switch's report that a cable is down still counts: no later
// picture agrees, and no sweep that began later contradicts it.
func (m *model) lost(c int, x end) bool {
	w, said := m.words[x]
	if !said || w.state != topology.Down {
		return false
	}
	for _, p := range m.shown {
		if p.told > w.told && (!p.has[c] || p.began.After(w.asked)) {
			return false
		}
	}
	return true
}

// rate returns the expected rate of one end of a cable in the last picture: the rate in
// the picture, or the rate that a switch has reported since pictures began to leave it in
// doubt.
func (m *model) rate(c, i int) ib.Rate {
	said, known := m.rates[m.cables[c].ends[i]]
	for at := len(m.shown) - 1; known && at >= 0 && m.shown[at].disputed(c); at-- {
		if m.shown[at].told < said.told {
			return said.rate
		}
	}
	return m.last().rates[c][i]
}

// expected returns the fabric that should be believed.
func (m *model) expected() *topology.Fabric {
	f := m.whole.Clone()
	var lacks []topology.PortRef
	for c := range m.cables {
		if !m.last().has[c] || m.lost(c, m.cables[c].ends[0]) || m.lost(c, m.cables[c].ends[1]) {
			lacks = append(lacks, m.cables[c].refs[0])
			continue
		}
		for i, r := range m.cables[c].refs {
			f.At(r).Rate = m.rate(c, i)
		}
	}
	return m.blank(f, lacks)
}

// blank returns the fabric without some cables, and clears the rates of ports without a
// cable.
func (m *model) blank(f *topology.Fabric, lacks []topology.PortRef) *topology.Fabric {
	f = f.Without(lacks...).Clone()
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; !port.Connected() {
				port.Rate = ib.Rate{}
			}
		}
	}
	return f
}

// check compares the believed fabric with the expected one.
func (m *model) check() {
	if len(m.shown) == 0 {
		if m.believe != nil {
			m.t.Fatal("a fabric is believed, and none was shown")
		}
		return
	}
	if want := m.expected(); m.blank(m.believe, nil).Hash() != want.Hash() {
		m.t.Fatalf("another fabric is believed than history tells: %v", topology.Diff(want, m.believe))
	}
}

// doubted reports whether the switch at an end of a cable should be asked for the rate
// again.
func (m *model) doubted(c, i int) bool {
	if len(m.shown) == 0 || !m.last().disputed(c) {
		return false
	}
	shown := m.last().rates[c]
	if m.last().low(c) {
		return m.now.Sub(m.last().since[c]) < Training && (m.rate(c, 0) == narrow || m.rate(c, 1) == narrow)
	}
	return m.rate(c, 0) != m.rate(c, 1) || m.rate(c, i).Below(shown[0]) || m.rate(c, i).Below(shown[1])
}

// cared checks that switches whose traps may not arrive were read recently.
func (m *model) cared() {
	limits := map[ib.GUID]time.Duration{m.leaf: Seldom}
	for c := range m.cables {
		for i, x := range m.cables[c].ends {
			if m.lost(c, x) || m.doubted(c, i) {
				limits[m.cables[c].ends[i].node] = Seldom
			}
		}
	}
	often := max(Often, Spread*time.Duration(len(m.care)))
	for g, care := range m.care {
		recent := slices.DeleteFunc(slices.Clone(care.traps), func(at time.Time) bool { return m.now.Sub(at) >= TrapMemory })
		if len(recent) >= ManyTraps || slices.Contains(m.held, g) {
			limits[g] = often
		}
	}
	for g, care := range m.care {
		if ago := m.now.Sub(care.heard); !care.heard.IsZero() && ago > Unheeded && m.readable(g) && m.reads[g] == nil && !care.silent {
			m.t.Fatalf("the manager received a trap of switch %v %v ago and has told nobody, and the switch is not read", g, ago)
		}
	}
	for g, limit := range limits {
		if g == 0 || !m.readable(g) || m.reads[g] != nil || m.care[g].silent {
			continue
		}
		if ago := min(m.now.Sub(m.care[g].asked), m.now.Sub(m.since)); ago > limit {
			m.t.Fatalf("switch %v was read %v ago, want %v", g, ago, limit)
		}
	}
}

package tomography

import (
	"math"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// surely is √n·e/σ, for n transfers of one of two parts alone, at which the right one explains
// more by nearly in 99 of 100 cases: that difference of log-likelihoods has the mean n(e/σ)²/2
// and the variance n(e/σ)².
const surely = 6.2

// Further is a table of phases that tell slow parts apart.
type Further struct {
	Table     *phasetable.Table
	Exchanges int      // to be run by it
	Alike     []string // parts that no transfer tells from a slow part
}

// doubt is a slow part and another one that explains the same.
type doubt struct {
	name  string
	links [2][]int32 // of the two
	need  int        // transfers that pass only one of them
	have  int
}

// tells reports whether a way passes only one of the parts.
func (d *doubt) tells(way []int32) bool {
	in := func(part int) bool {
		return slices.ContainsFunc(way, func(l int32) bool { return slices.Contains(d.links[part], l) })
	}
	return in(0) != in(1)
}

// Further plans phases in which transfers pass one of two parts that were not told apart, and
// each link is used at most once. In these phases the other hosts send elsewhere, so that the
// median of a phase is that of transfers without a fault. A pair of hosts occurs once. Messages go to base LIDs, or by
// any LID of the destination, if programs can choose. It returns nil without doubt.
func (l *Links) Further(tables *lft.Tables, m *api.Measured, anyLID bool) *Further {
	out := &Further{Exchanges: 1}
	byName := map[string]*Part{}
	parts := l.Parts()
	for i := range parts {
		byName[parts[i].Name] = &parts[i]
	}
	var doubts []doubt
	for _, s := range m.Slow {
		for _, or := range s.Or {
			a, b := byName[s.Name], byName[or]
			if a != nil && b != nil {
				need := math.Pow(surely*m.Noise/math.Log1p(s.Slowdown), 2)
				doubts = append(doubts, doubt{name: or, links: [2][]int32{a.Links, b.Links}, need: int(min(need, 1e6)) + 1})
			}
		}
	}
	if doubts == nil {
		return nil
	}
	s := l.newSchedule(tables, anyLID, doubts)
	for s.phase() {
	}
	for i := range doubts {
		if d := &doubts[i]; d.have == 0 {
			out.Alike = append(out.Alike, d.name)
		} else {
			out.Exchanges = max(out.Exchanges, (d.need+d.have-1)/d.have)
		}
	}
	out.Table = s.table
	return out
}

// send is a transfer that may be planned.
type send struct {
	from, to int32
	lid      ib.LID
	way      []int32
}

// schedule makes phases.
type schedule struct {
	links  *Links
	hosts  []topology.EndPort
	anyLID bool // lanes are those of LIDs
	doubts []doubt
	tells  []send            // those that tell parts apart
	base   [][]send          // [host] those to base LIDs
	done   map[[2]int32]bool // pairs
	table  *phasetable.Table
}

func (l *Links) newSchedule(tables *lft.Tables, anyLID bool, doubts []doubt) *schedule {
	s := &schedule{links: l, hosts: l.fabric.ConnectedHosts(), anyLID: anyLID, doubts: doubts, done: map[[2]int32]bool{}, table: &phasetable.Table{}}
	leaves := map[int32]int{}
	for i := range s.hosts {
		h := &s.hosts[i]
		leaf := l.fabric.At(h.PortRef).Peer
		if _, known := leaves[leaf]; !known {
			leaves[leaf] = len(leaves)
		}
		s.table.Servers = append(s.table.Servers, phasetable.ServerEntry{GUID: h.GUID, LID: h.LID, LMC: h.LMC, Leaf: leaves[leaf], Name: l.fabric.Nodes[h.Node].Name})
		s.base = append(s.base, nil)
	}
	ways := l.newWays(tables)
	for i := range s.hosts {
		for j := range s.hosts {
			lids := ib.LID(1)
			if anyLID {
				lids <<= s.hosts[j].LMC
			}
			if s.table.Servers[i].Leaf == s.table.Servers[j].Leaf {
				lids = 1 // by whatever LID, there is one way
			}
			for k := ib.LID(0); i != j && k < lids; k++ {
				x := send{from: int32(i), to: int32(j), lid: s.hosts[j].LID + k}
				var err error
				if x.way, err = ways.of(s.hosts[i].GUID, x.lid); err != nil {
					continue // no transfer of the program is meant to go there
				}
				if slices.ContainsFunc(doubts, func(d doubt) bool { return d.tells(x.way) }) {
					s.tells = append(s.tells, x)
				} else if k == 0 {
					s.base[i] = append(s.base[i], x)
				}
			}
		}
	}
	return s
}

// phase adds a phase, and reports whether there is one.
func (s *schedule) phase() bool {
	n, at := len(s.hosts), len(s.table.To)
	to := slices.Repeat([]int32{phasetable.Idle}, n)
	lid := make([]ib.LID, n)
	busy, received := map[int32]bool{}, make([]bool, n)
	take := func(x *send) bool {
		if to[x.from] != phasetable.Idle || received[x.to] || s.done[[2]int32{x.from, x.to}] || slices.ContainsFunc(x.way, func(l int32) bool { return busy[l] }) {
			return false
		}
		for _, l := range x.way {
			busy[l] = true
		}
		to[x.from], lid[x.from], received[x.to], s.done[[2]int32{x.from, x.to}] = x.to, x.lid, true, true
		return true
	}
	found := false
	for i := range s.tells {
		x := &s.tells[i]
		if slices.ContainsFunc(s.doubts, func(d doubt) bool { return d.have < d.need && d.tells(x.way) }) && take(x) {
			found = true
			for k := range s.doubts {
				if s.doubts[k].tells(x.way) {
					s.doubts[k].have++
				}
			}
		}
	}
	if !found {
		return false
	}
	for i, list := range s.base { // the others, each phase beginning elsewhere
		for k := range list {
			if take(&list[(k+i+at)%len(list)]) {
				break
			}
		}
	}
	s.table.Phases++
	s.table.To, s.table.DLID = append(s.table.To, to...), append(s.table.DLID, lid...)
	for i, j := range to {
		lane := int16(phasetable.Local)
		if s.anyLID && j != phasetable.Idle && s.table.Servers[i].Leaf != s.table.Servers[j].Leaf {
			lane = int16(lid[i] - s.hosts[j].LID)
			s.table.Lanes = max(s.table.Lanes, int(lane)+1)
		}
		s.table.Lane = append(s.table.Lane, lane)
	}
	return true
}

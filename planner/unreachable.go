package planner

import (
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Unreachable lists the ordered pairs of servers that a plan may leave out and does: their
// leaves share no lane that is up at both and that the destination has a LID for. A plan
// with tables of its own may still serve such a pair, see Route. The pairs are by index of
// FatTree.Servers, ascending.
func Unreachable(t *topology.FatTree, r verify.Rows) [][2]int32 {
	var out [][2]int32
	served := servedPairs(len(t.Servers), r)
	for s, i := range t.Servers {
		for d, j := range t.Servers {
			if src, dst := &t.Hosts[i], &t.Hosts[j]; src.Leaf != dst.Leaf && t.ExchangeOf(src) == t.ExchangeOf(dst) && !served[s*len(t.Servers)+d] && !shareLane(t, src, dst) {
				out = append(out, [2]int32{int32(s), int32(d)})
			}
		}
	}
	return out
}

func shareLane(t *topology.FatTree, src, dst *topology.Host) bool {
	for k := range t.Lanes {
		if t.LaneUp(src.Leaf, k) && t.LaneUp(dst.Leaf, k) {
			if _, open := t.DLID(dst, k); open {
				return true
			}
		}
	}
	return false
}

// servedPairs returns [source·servers + destination] whether the pair is in a plan.
func servedPairs(servers int, r verify.Rows) []bool {
	served := make([]bool, servers*servers)
	for i, d := range r.To {
		if d >= 0 && int(d) < servers {
			served[i%servers*servers+int(d)] = true
		}
	}
	return served
}

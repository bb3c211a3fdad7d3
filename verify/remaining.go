package verify

import (
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Past is the part of an exchange that has run: the first Done phases of a plan, whose
// servers are identified by port GUID, so that some may have vanished and others be new.
type Past struct {
	Servers []ib.GUID
	Rows    Rows // in the order of Servers
	Done    int  // phases
}

// Remaining checks a plan that completes an exchange as Plan does: every ordered pair of
// the servers of t occurs exactly once in the past and the plan together, or is in
// unreachable. The past is not walked through the tables, and its transfers with servers
// that t lacks, and between its exchanges, do not count. The error is a *Violation, in the order of Plan's; a malformed
// past comes first.
func Remaining(t *topology.FatTree, tables *lft.Tables, past Past, r Rows, unreachable [][2]int32) error {
	c := newExchange(t, newNetwork(t.Fabric, tables), r)
	if v := c.malformed(); v != nil {
		return v
	}
	done, v := c.countPast(past)
	if v != nil {
		return v
	}
	for _, pair := range unreachable {
		if ph := done.phase(pair[0], pair[1]); ph != NoPhase {
			return violation(PairTwice, NoPhase, "%s is called unreachable and has had its transfer in phase %d of what is done", c.pairLabel(pair[0], pair[1]), ph)
		}
	}
	for ph := range r.Phases {
		row := r.To[ph*len(c.servers):][:len(c.servers)]
		for s, d := range row {
			if before := done.phase(int32(s), d); before != NoPhase {
				return violation(PairTwice, ph, "%s has had its transfer in phase %d of what is done", c.pairLabel(int32(s), d), before)
			}
		}
	}
	if v := c.run(unreachable); v != nil {
		return v
	}
	return nil
}

// history records in which phase a pair has met.
type history struct {
	servers int
	at      []int32 // [source·servers + destination] phase plus one, 0 if none
}

// phase returns the phase in which a pair met, or NoPhase.
func (h *history) phase(s, d int32) int {
	if s < 0 || d < 0 || int(s) >= h.servers || int(d) >= h.servers || h.at[int(s)*h.servers+int(d)] == 0 {
		return NoPhase
	}
	return int(h.at[int(s)*h.servers+int(d)]) - 1
}

// countPast counts the pairs of a past as seen.
func (c *exchange) countPast(past Past) (*history, *Violation) {
	count, old := len(c.servers), len(past.Servers)
	if past.Done < 0 || past.Done > past.Rows.Phases || len(past.Rows.To) != old*past.Rows.Phases {
		return nil, violation(BadRows, NoPhase, "%d phases are done of %d of %d servers, which need %d elements: there are %d destinations",
			past.Done, past.Rows.Phases, old, old*past.Rows.Phases, len(past.Rows.To))
	}
	now := make(map[ib.GUID]int32, count)
	for i, h := range c.tree.Servers {
		now[c.tree.Hosts[h].GUID] = int32(i)
	}
	h := &history{servers: count, at: make([]int32, count*count)}
	for ph := range past.Done {
		for i, to := range past.Rows.To[ph*old:][:old] {
			if to == Idle {
				continue
			}
			if to < 0 || int(to) >= old || int(to) == i {
				return nil, violation(BadRows, ph, "%s has sent to server %d: want another one of %d, or %d", past.Servers[i], to, old, Idle)
			}
			s, here := now[past.Servers[i]]
			d, there := now[past.Servers[to]]
			if !here || !there || !c.tree.Together(int(s), int(d)) {
				continue
			}
			if !c.seen.see(s, d) {
				return nil, violation(PairTwice, ph, "%s has had its transfer twice in what is done", c.pairLabel(s, d))
			}
			h.at[int(s)*count+int(d)] = int32(ph + 1)
		}
	}
	return h, nil
}

// malformed returns a violation if the numbers of rows, phases and servers do not agree.
func (c *exchange) malformed() *Violation {
	count, r := len(c.servers), &c.rows
	if want := r.Phases * count; r.Phases < 0 || len(r.To) != want || len(r.Lane) != want || len(r.DLID) != want {
		return violation(BadRows, NoPhase, "%d phases of %d servers need %d elements: there are %d destinations, %d lanes, %d DLIDs",
			r.Phases, count, want, len(r.To), len(r.Lane), len(r.DLID))
	}
	return nil
}

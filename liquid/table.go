package liquid

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// Table returns a schedule of the routes as a phase table: a phase for each step, the
// base LIDs, and lane −1, which means no lane. The servers are the hosts in their
// order, and the leaves their switches, numbered as they occur. It fails if a host
// sends twice in a step, which no schedule of these routes does.
func (r *Routes) Table(s Schedule) (*phasetable.Table, error) {
	n := len(r.Hosts)
	t := &phasetable.Table{TopologyHash: r.Fabric.Hash(), Phases: len(s), To: make([]int32, n*len(s)), Lane: make([]int16, n*len(s)),
		DLID: make([]ib.LID, n*len(s))}
	leaf := make(map[int32]int) // [switch]
	for _, h := range r.Hosts {
		at := r.Fabric.At(h.PortRef).Peer
		if _, known := leaf[at]; !known {
			leaf[at] = len(leaf)
		}
		t.Servers = append(t.Servers, phasetable.ServerEntry{GUID: h.GUID, LID: h.LID, LMC: h.LMC, Leaf: leaf[at], Name: r.Fabric.Nodes[h.Node].Name})
	}
	for i := range t.To {
		t.To[i], t.Lane[i] = phasetable.Idle, phasetable.Local
	}
	for phase, step := range s {
		for _, x := range step {
			p := r.Traffic.Pair(x)
			at := phase*n + int(p.Src)
			if t.To[at] != phasetable.Idle {
				return nil, fmt.Errorf("make a phase table: host %s sends twice in step %d", r.Hosts[p.Src].GUID, phase)
			}
			t.To[at], t.DLID[at] = p.Dst, r.Hosts[p.Dst].LID
		}
	}
	return t, nil
}

// Check walks every transfer of a phase table of these routes through the
// forwarding tables that they were traced on, and returns the first error: servers
// that are not the hosts, a missing or duplicate pair, a lost transfer, or a link
// with two transfers in a phase. It uses only LIDs and GUIDs, and shares no code with
// Trace.
func (r *Routes) Check(t *phasetable.Table) error {
	if !slices.EqualFunc(t.Servers, r.Hosts, func(s phasetable.ServerEntry, h topology.EndPort) bool { return s.GUID == h.GUID && s.LID == h.LID }) {
		return fmt.Errorf("the %d servers of the table are not the %d hosts in their order", len(t.Servers), len(r.Hosts))
	}
	missing := make(map[Pair]int, r.Traffic.Len())
	for _, p := range r.Traffic.pairs {
		missing[p]++
	}
	var rows []sim.Row
	n := len(t.Servers)
	for i, to := range t.To {
		if to < 0 {
			continue
		}
		p := Pair{int32(i % n), to}
		if missing[p]--; missing[p] < 0 {
			return fmt.Errorf("phase %d: %s sends to %s once too often", i/n, t.Servers[p.Src].GUID, t.Servers[to].GUID)
		}
		rows = append(rows, sim.Row{Phase: int32(i / n), DLID: t.DLID[i], Src: t.Servers[p.Src].GUID, Dst: t.Servers[to].GUID})
	}
	if len(rows) != r.Traffic.Len() {
		return fmt.Errorf("%d of %d transfers are in no phase", r.Traffic.Len()-len(rows), r.Traffic.Len())
	}
	result, err := sim.Run(r.Fabric, r.Tables, rows)
	switch {
	case err != nil:
		return err
	case result.Lost > 0:
		return fmt.Errorf("%d transfers are lost: %s", result.Lost, result.FirstLost)
	case result.Max > 1:
		return fmt.Errorf("phase %d has %d transfers on %s", result.Busiest.Phase, result.Busiest.Transfers, result.Busiest.Cable)
	}
	return nil
}

package sim

import (
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// LinearShift is the linear-shift exchange of the servers of t on base LIDs. The
// servers are numbered leaf by leaf by slot α, s = leaf·slots + α, where slots is
// one more than the largest α of a server; in phase p server s sends to server
// (s+p) mod (leaves·slots), 1 ≤ p < leaves·slots. Slots without a server are
// silent. Phase 0, in which everybody would send to itself, is empty.
func LinearShift(t *topology.FatTree) []Row {
	slots := 0
	for _, i := range t.Servers {
		slots = max(slots, t.Hosts[i].Alpha+1)
	}
	places := slots * len(t.Leaves)
	at := make([]int, places) // index into Hosts, −1
	for i := range at {
		at[i] = -1
	}
	for _, i := range t.Servers {
		at[t.Hosts[i].Leaf*slots+t.Hosts[i].Alpha] = i
	}
	rows := make([]Row, 0, len(t.Servers)*max(0, len(t.Servers)-1))
	for p := 1; p < places; p++ {
		for s, i := range at {
			if i < 0 {
				continue
			}
			d := s + p
			if d >= places {
				d -= places
			}
			if j := at[d]; j >= 0 && t.ExchangeOf(&t.Hosts[i]) == t.ExchangeOf(&t.Hosts[j]) {
				src, dst := &t.Hosts[i], &t.Hosts[j]
				rows = append(rows, Row{Phase: int32(p), DLID: dst.LID, Src: src.GUID, Dst: dst.GUID})
			}
		}
	}
	return rows
}

// HostShift is the linear shift on a fabric of any shape: in phase p host i sends to
// host (i+p) mod n of the n hosts, 1 ≤ p < n, on base LIDs.
func HostShift(hosts []topology.EndPort) []Row {
	n := len(hosts)
	rows := make([]Row, 0, n*max(0, n-1))
	for p := 1; p < n; p++ {
		for i := range hosts {
			dst := &hosts[(i+p)%n]
			rows = append(rows, Row{Phase: int32(p), DLID: dst.LID, Src: hosts[i].GUID, Dst: dst.GUID})
		}
	}
	return rows
}

// AllAtOnce simulates that each host of fabric f sends to the base LID of every other one of
// its group, all in one phase.
func AllAtOnce(f *topology.Fabric, tables *lft.Tables, groups ...[]topology.EndPort) (*Result, error) {
	r := newRunner(f, tables)
	r.result.Phases, r.result.PerPhaseMax = 1, make([]int, 1)
	for _, hosts := range groups {
		ends := make([]int32, len(hosts))
		for i := range hosts {
			if ends[i] = r.find(hosts[i].GUID); ends[i] < 0 {
				return nil, fmt.Errorf("simulate: no port of the fabric has GUID %s", hosts[i].GUID)
			}
			r.count(ends[i])
		}
		row := make([]transfer, 0, len(ends))
		for _, src := range ends {
			row = row[:0]
			for _, dst := range ends {
				if src != dst {
					row = append(row, transfer{src: src, dst: dst, lid: r.ends[dst].LID})
				}
			}
			r.addLoad(row)
			r.path = r.path[:0]
			r.result.Transfers += len(row)
			r.result.Most = max(r.result.Most, len(row))
		}
	}
	r.measure(0)
	r.summarise()
	return &r.result, nil
}

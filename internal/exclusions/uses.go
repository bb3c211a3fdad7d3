package exclusions

import (
	"fmt"
	"maps"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Plan is a plan in force.
type Plan struct {
	Name string
	*phasetable.View
	// Members are the hosts of the plan's job. Hosts that the plan leaves out may still run
	// programs that send.
	Members []ib.GUID
}

// Uses walks all plans in force, and the path to every host from every leaf, through all tables
// that the switches may hold, and returns the uses of each drained part. The cables of a
// drained leaf lead to its own hosts, which have no other path: for a leaf it returns the plans
// that include its hosts.
func Uses(t *topology.FatTree, tables []*lft.Tables, plans []Plan, all []Drain) map[Part][]string {
	u := &walker{tree: t, host: map[ib.GUID]int{}, out: make([]int, len(t.Leaves))}
	uses := map[Part][]string{}
	for i := range all {
		if d := &all[i]; d.Active() {
			uses[d.Part] = nil
			u.active = append(u.active, d)
		}
	}
	u.mark()
	for n := range plans {
		transfers, hosts := u.ofPlan(&plans[n], tables)
		for i, d := range u.active {
			if hosts[i] > 0 {
				uses[d.Part] = append(uses[d.Part], fmt.Sprintf("%s has %d of its hosts", plans[n].Name, hosts[i]))
			}
			if transfers[i] > 0 {
				uses[d.Part] = append(uses[d.Part], fmt.Sprintf("%s sends %d transfers over it", plans[n].Name, transfers[i]))
			}
		}
	}
	for i, lids := range u.ofTables(tables) {
		if lids > 0 {
			uses[u.active[i].Part] = append(uses[u.active[i].Part], fmt.Sprintf("tables lead to %d LIDs of hosts over it", lids))
		}
	}
	return uses
}

// Recalled returns the drained parts that are safe to pull by what is known, and over which some
// tables lead, with these uses.
func Recalled(t *topology.FatTree, tables *lft.Tables, all []Drain) map[Part][]string {
	safe := slices.DeleteFunc(slices.Clone(all), func(d Drain) bool { return d.State != Safe })
	if t == nil || len(safe) == 0 {
		return nil
	}
	uses := Uses(t, []*lft.Tables{tables}, nil, safe)
	maps.DeleteFunc(uses, func(_ Part, by []string) bool { return by == nil })
	return uses
}

// walker does the walks of Uses.
type walker struct {
	tree   *topology.FatTree
	active []*Drain
	taken  [][][]int       // [node][port] the drains, except those of leaves, that take out its cable
	host   map[ib.GUID]int // index in tree.Hosts
	out    []int           // [leaf] the drain that takes out its hosts, or −1
	met    []int           // scratch space
}

// mark finds the drained ports and leaves.
func (u *walker) mark() {
	f := u.tree.Fabric
	for i := range u.tree.Hosts {
		u.host[u.tree.Hosts[i].GUID] = i
	}
	u.taken = make([][][]int, len(f.Nodes))
	for i := range f.Nodes {
		u.taken[i] = make([][]int, len(f.Nodes[i].Ports))
	}
	for l := range u.tree.Leaves {
		leaf := &u.tree.Leaves[l]
		u.out[l] = slices.IndexFunc(u.active, func(d *Drain) bool { return d.Kind == Leaf && d.GUID == leaf.GUID })
	}
	for _, x := range Links(u.tree) {
		for i, d := range u.active {
			if x.State == topology.Missing || d.Kind == Leaf || !d.takes(&x) {
				continue
			}
			for _, end := range []SwitchEnd{x.Lower, x.Upper} {
				u.taken[end.Node][end.Port] = append(u.taken[end.Node][end.Port], i)
			}
		}
	}
}

// mostHops is the maximum number of switches on a walk. The verifier reports longer ones.
const mostHops = 16

// tabled returns the tables of the fabric's nodes.
func tabled(f *topology.Fabric, tables *lft.Tables) [][]uint8 {
	out := make([][]uint8, len(f.Nodes))
	for i := range f.Nodes {
		if n := tables.Find(f.Nodes[i].GUID); n >= 0 {
			out[i] = tables.Switches[n].Out
		}
	}
	return out
}

// over lists the drains whose cables a packet from a leaf to a LID uses.
func (u *walker) over(tables [][]uint8, leaf int, lid ib.LID) []int {
	at := u.tree.Leaves[leaf].Node
	u.met = u.met[:0]
	for range mostHops {
		if at == topology.None || int(lid) >= len(tables[at]) {
			break
		}
		port := tables[at][lid]
		ports := u.tree.Fabric.Nodes[at].Ports
		if port == 0 || int(port) >= len(ports) || !ports[port].Connected() {
			break
		}
		for _, d := range u.taken[at][port] {
			if !slices.Contains(u.met, d) { // up and down through a spine count once
				u.met = append(u.met, d)
			}
		}
		at = ports[port].Peer
	}
	return u.met
}

// ofPlan counts, for each drain, a plan's transfers over its cables, and the plan's servers on
// its leaf.
func (u *walker) ofPlan(p *Plan, all []*lft.Tables) (transfers, hosts []int) {
	transfers, hosts = make([]int, len(u.active)), make([]int, len(u.active))
	for _, g := range p.Members {
		if i, known := u.host[g]; known && u.tree.Hosts[i].Leaf >= 0 && u.out[u.tree.Hosts[i].Leaf] >= 0 {
			hosts[u.out[u.tree.Hosts[i].Leaf]]++
		}
	}
	of := make([][]int, len(u.tree.Leaves)) // [leaf] the plan's servers
	for s := range p.Servers() {
		i, known := u.host[p.Server(s).GUID]
		if !known || u.tree.Hosts[i].Leaf < 0 {
			continue
		}
		leaf := u.tree.Hosts[i].Leaf
		of[leaf] = append(of[leaf], s)
		if d := u.out[leaf]; d >= 0 && p.Members == nil {
			hosts[d]++
		}
	}
	tables := make([][][]uint8, len(all))
	for n, t := range all {
		tables[n] = tabled(u.tree.Fabric, t)
	}
	var sent []int // [LID] from one leaf
	for leaf, servers := range of {
		for _, s := range servers {
			for row, phase := p.Row(s), 0; phase < row.Len(); phase++ {
				if x := row.At(phase); x.SendTo >= 0 {
					if short := int(x.DLID) + 1 - len(sent); short > 0 {
						sent = append(sent, make([]int, short)...)
					}
					sent[x.DLID]++
				}
			}
		}
		for lid, n := range sent {
			for i := 0; n > 0 && i < len(tables); i++ {
				for _, d := range u.over(tables[i], leaf, ib.LID(lid)) {
					transfers[d] += n
				}
			}
		}
		clear(sent)
	}
	return transfers, hosts
}

// ofTables counts, for each drain, the LIDs of hosts to which some tables lead over one of its
// cables from a leaf. It ignores traffic from and to a drained leaf.
func (u *walker) ofTables(all []*lft.Tables) []int {
	count := make([]int, len(u.active))
	last := make([]int, len(u.active)) // the last LID that was counted
	for _, t := range all {
		tables := tabled(u.tree.Fabric, t)
		for i := range u.tree.Hosts {
			h := &u.tree.Hosts[i]
			if h.Leaf >= 0 && u.out[h.Leaf] >= 0 {
				continue
			}
			for lid := h.LID; lid < h.LID+1<<h.LMC && h.LID != 0; lid++ {
				for l := range u.tree.Leaves {
					if l == h.Leaf || u.out[l] >= 0 {
						continue
					}
					for _, d := range u.over(tables, l, lid) {
						if last[d] != int(lid) {
							last[d] = int(lid)
							count[d]++
						}
					}
				}
			}
		}
	}
	return count
}

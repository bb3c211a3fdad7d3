package lft

import (
	"bytes"
	"math"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Build makes the tables of every switch of t.Fabric for every LID in use: hosts,
// bystanders, routers, and the switches' own.
//
// LID base+j of a host takes lane (j+α+first) mod K (FatTree.LIDLane) from every leaf at
// which that lane is Full, if it is Full at the host's leaf too; so the entries of living
// lanes do not depend on the other lanes. Otherwise a substitute lane is used, until it
// dies too or a lane before it in its own probe sequence is up again. Spines go straight
// down. LIDs without an up-then-down path are relayed by one leaf (relay.go), or by others
// if that does not help (complete.go), and left out only if every path might deadlock. No
// entry leads to a port that is down. Parts outside the tree are routed up and down by rank
// (updown.go).
//
// It fails if the fabric is inconsistent, such as with duplicate LIDs.
func Build(t *topology.FatTree) (*Tables, error) { return BuildPinned(t, nil) }

// makeTables makes the tables of a fabric and pins that were checked.
func makeTables(t *topology.FatTree, pins *Pins) *Tables {
	n := newNetwork(t)
	b := &builder{network: n}
	tables := newTables(t.Fabric)
	at := make([][]uint8, len(t.Fabric.Nodes))
	for i := range tables.Switches {
		at[t.Fabric.Find(tables.Switches[i].GUID)] = tables.Switches[i].Out
	}
	for l := range n.Leaves {
		if node := n.Leaves[l].Node; node != topology.None {
			b.fillLeaf(l, at[node])
			if pins != nil {
				b.pin(pins, l, at[node])
			}
		}
	}
	for u := range b.uppers {
		if node := b.uppers[u].node; node != topology.None {
			b.fillUpper(u, at[node])
		}
	}
	if u := newUpDown(t); u != nil {
		u.fill(at)
	}
	return tables
}

// newTables allocates empty tables for the switches of f, long enough for every LID in use,
// in one piece of memory.
func newTables(f *topology.Fabric) *Tables {
	switches, length := 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind == topology.Switch {
			switches++
		}
		for p := range n.Ports {
			if port := &n.Ports[p]; port.LID != 0 {
				length = max(length, int(port.LID)+1<<port.LMC)
			}
		}
	}
	t := &Tables{Switches: make([]Table, 0, switches)}
	out := bytes.Repeat([]byte{NoPath}, switches*length)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		at := len(t.Switches) * length
		t.Switches = append(t.Switches, Table{GUID: n.GUID, LID: n.LID(), Name: n.Name, Ports: max(0, len(n.Ports)-1),
			Out: out[at : at+length : at+length]})
	}
	return t
}

// builder fills tables. Its slices are scratch memory.
type builder struct {
	*network
	ports  []uint8 // [lane, repeated] output port, 0 if the lane is closed
	closed []int   // the lanes that are not Full at both leaves
	usable bool    // some lane is usable at both leaves
	full   bool    // some lane is Full at both leaves
	down   [][]uint8
}

// span returns the number of lanes from the first lane of any host to its last, so that one
// row of repeated lanes serves every host.
func (b *builder) span() int { return b.k + 1<<ib.MaxLMC }

func fill(out []uint8, e *end, port uint8) {
	row := out[e.lid : int(e.lid)+e.n]
	for i := range row {
		row[i] = port
	}
}

// group returns the ends from i on that share the leaf of the first.
func (b *builder) group(i int) []end {
	j := i + 1
	for j < len(b.ends) && b.ends[j].leaf == b.ends[i].leaf {
		j++
	}
	return b.ends[i:j]
}

// fillLeaf fills the table of leaf l.
func (b *builder) fillLeaf(l int, out []uint8) {
	for i := 0; i < len(b.ends); {
		ends := b.group(i)
		i += len(ends)
		switch d := ends[0].leaf; d {
		case -1:
			for e := range ends {
				b.leafToUpper(l, &ends[e], out)
			}
		case l:
			for e := range ends {
				fill(out, &ends[e], ends[e].port)
			}
		default:
			b.openLanes(l, d)
			for e := range ends {
				b.leafToLeaf(l, &ends[e], out)
			}
		}
	}
}

// openLanes prepares the row of output ports from leaf l to leaf d by lane.
func (b *builder) openLanes(l, d int) {
	if b.ports == nil {
		b.ports = make([]uint8, b.span())
	}
	b.closed, b.usable, b.full = b.closed[:0], false, false
	from, to := b.Leaves[l].Cables, b.Leaves[d].Cables
	for k := range b.Lanes {
		switch {
		case from[k].State == topology.Full && to[k].State == topology.Full:
			b.ports[k], b.full = from[k].LeafPort, true
		case from[k].Usable() && to[k].Usable():
			b.usable = true
			fallthrough
		default:
			b.closed = append(b.closed, k)
		}
	}
	for i := b.k; i < len(b.ports); i++ {
		b.ports[i] = b.ports[i-b.k]
	}
}

// leafToLeaf fills the entries of e, an end on the leaf that openLanes prepared.
func (b *builder) leafToLeaf(l int, e *end, out []uint8) {
	start := e.alpha % b.k
	row := out[e.lid : int(e.lid)+e.n]
	copy(row, b.ports[start:])
	if b.Lanes == 0 {
		fill(out, e, b.detour(l, e, 0))
		return
	}
	for _, k := range b.closed {
		for j := (k - start + b.k) % b.k; j < e.n; j += b.k {
			row[j] = b.substitute(l, k, j, e)
		}
	}
}

// substitute returns the output port at leaf l of LID j of e, whose lane k is closed: the
// first lane in a probe sequence over all other lanes that is Full at both leaves; else the
// lane itself, or the first in the sequence, that is usable; else the result of detour. The
// sequence starts at a position that depends evenly on the index of the host and on both
// leaves, with a step coprime to the number of positions; so the entries that one dead
// cable displaces are spread evenly at both its ends.
func (b *builder) substitute(l, k, j int, e *end) uint8 {
	from, to := b.Leaves[l].Cables, b.Leaves[e.leaf].Cables
	h := l + e.leaf + e.alpha + j/b.k
	want := topology.Full
	switch {
	case b.full:
	case !b.usable:
		return b.detour(l, e, h+j)
	case from[k].Usable() && to[k].Usable():
		return from[k].LeafPort
	default:
		want = topology.Degraded
	}
	places, step := b.k-1, b.steps[e.alpha%len(b.steps)]
	at := h % places
	for range places {
		lane := k + 1 + at
		if lane >= b.k {
			lane -= b.k
		}
		if from[lane].State >= want && to[lane].State >= want {
			return from[lane].LeafPort
		}
		if at += step; at >= places {
			at -= places
		}
	}
	return NoPath
}

// detour returns the output port at leaf l towards an end on a leaf with which it shares no
// lane: up to an upper switch with cables to both, else up to one from which the relay leaf
// continues.
func (b *builder) detour(l int, e *end, h int) uint8 {
	if port := b.up(l, e.leaf, h); port != NoPath {
		return port
	}
	if b.relaysTo(e) && l != b.relay {
		return b.up(l, b.relay, h)
	}
	return NoPath
}

// up returns the output port at leaf l to an upper switch that has cables to leaf d too; h
// spreads over them.
func (b *builder) up(l, d, h int) uint8 {
	if !b.meet(l, d) {
		return NoPath
	}
	u := h % len(b.uppers)
	for !b.reaches(l, u) || !b.reaches(d, u) {
		u = (u + 1) % len(b.uppers)
	}
	return b.pick(l, u, -1, h).leafPort
}

// pick chooses a cable of leaf l to upper switch u, which has one: Full ones first, among
// them the one of lane index own, then the first from h on, cyclically; then degraded ones
// likewise; cables without a lane last.
func (b *builder) pick(l, u, own, h int) *link {
	links, n := b.between(l, u), max(1, b.uppers[u].lanes)
	best, rank := 0, math.MaxInt
	for i := range links {
		var r int
		switch c := &links[i]; {
		case c.index < 0:
			r = 4*n + (i+h)%len(links)
		case c.index == own:
			r = 0
		default:
			r = 1 + (c.index+n-h%n)%n
		}
		if links[i].index >= 0 && !links[i].full {
			r += 2 * n
		}
		if r < rank {
			best, rank = i, r
		}
	}
	return &links[best]
}

// leafToUpper fills the entries at leaf l of e, an end on an upper switch.
func (b *builder) leafToUpper(l int, e *end, out []uint8) {
	row := out[e.lid : int(e.lid)+e.n]
	for j := range row {
		switch h := l + e.alpha + j; {
		case b.reaches(l, e.upper):
			row[j] = b.pick(l, e.upper, -1, h).leafPort
		case l != b.relay && b.relaysTo(e):
			row[j] = b.up(l, b.relay, h)
		}
	}
}

// fillUpper fills the table of upper switch u.
func (b *builder) fillUpper(u int, out []uint8) {
	for i := 0; i < len(b.ends); {
		ends := b.group(i)
		i += len(ends)
		d := ends[0].leaf
		if d >= 0 && b.reaches(d, u) {
			b.upperToLeaf(u, ends, out)
			continue
		}
		for i := range ends {
			switch e := &ends[i]; {
			case e.upper == u:
				fill(out, e, e.port)
			case b.relay >= 0 && b.relaysTo(e) && b.reaches(b.relay, u):
				fill(out, e, b.pick(b.relay, u, -1, e.alpha).upPort)
			}
		}
	}
}

// upperToLeaf fills the entries at u of the ends on a leaf that it has cables to. With
// several cables, the LIDs of u's own lanes take their own cable, and the others are spread
// by lane and index.
func (b *builder) upperToLeaf(u int, ends []end, out []uint8) {
	d := ends[0].leaf
	if links := b.between(d, u); len(links) == 1 {
		for i := range ends {
			fill(out, &ends[i], links[0].upPort)
		}
		return
	}
	rows := max(2, b.uppers[u].lanes)
	for len(b.down) < rows {
		b.down = append(b.down, make([]uint8, b.span()))
	}
	for r := range rows {
		row := b.down[r]
		for k := range b.k {
			row[k] = b.pick(d, u, k-b.uppers[u].first, k+r).upPort
		}
		for i := b.k; i < len(row); i++ {
			row[i] = row[i-b.k]
		}
	}
	for i := range ends {
		e := &ends[i]
		copy(out[e.lid:int(e.lid)+e.n], b.down[e.alpha%rows][e.alpha%b.k:])
	}
}

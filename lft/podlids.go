package lft

import (
	"slices"

	"github.com/forsd/forsd/ib"
)

// turned is an LID with the parameters of its entries.
type turned struct {
	lid, plane, turn int
	ring             []int // of a leaf's own LID: the planes that other leaves use in turn
}

// leafLIDs assigns planes to the LIDs of a leaf and of its hosts, so that all LIDs of one
// plane are in one block of the tables: if the leaf loses a cable, every other leaf only
// changes that block. Base LIDs have the planes of D-mod-K routing. LID base+j has the
// plane j places on in the ring of the planes of the base LIDs on the leaf in the same
// block, and the next lane after each turn of the ring. The LID of the leaf itself has
// planes of the same ring. If a host has an LID for every lane, the ring has all planes,
// and each LID has another lane.
func (b *podBuilder) leafLIDs(l int) {
	b.lids, b.turns = b.lids[:0], 1
	if b.Planes == 0 {
		return
	}
	for _, i := range b.hosts[l] {
		h := &b.Hosts[i]
		ring := b.ring(l, h.LID, h.LMC)
		plane, turn := b.Turn(h)
		first := slices.Index(ring, plane)
		for o := range 1 << h.LMC {
			b.lids = append(b.lids, turned{lid: int(h.LID) + o, plane: ring[(first+o)%len(ring)], turn: turn + o/len(ring)})
		}
	}
	if own := b.Fabric.Nodes[b.Leaves[l].Node].LID(); own != 0 {
		ring := b.ring(l, own, 0)
		b.lids = append(b.lids, turned{int(own), ring[0], b.InPod[l], ring})
	}
	if len(b.lids) > 0 {
		byTurn := func(x, y turned) int { return x.turn - y.turn }
		b.turn = slices.MinFunc(b.lids, byTurn).turn
		b.turns = slices.MaxFunc(b.lids, byTurn).turn - b.turn + 1
	}
}

// ring returns the planes for an LID on a leaf: those of the base LIDs in its block, or all
// if the block has none or 2^lmc LIDs suffice for all lanes.
func (b *podBuilder) ring(l int, lid ib.LID, lmc uint8) (planes []int) {
	for _, i := range b.hosts[l] {
		h := &b.Hosts[i]
		if j, _ := b.Turn(h); h.LID/Block == lid/Block && 1<<lmc < len(b.Lanes) && !slices.Contains(planes, j) {
			planes = append(planes, j)
		}
	}
	if len(planes) > 0 {
		return planes
	}
	return b.all
}

package fors

import (
	"errors"
	"fmt"
)

// maxPlaces is the most server places, M0·M1, that a tree may have: more than
// a subnet has unicast LIDs.
const maxPlaces = 1 << 16

// validate returns an error if the dimensions or the slots of a tree are inconsistent.
func (t *Tree) validate() error {
	if t.Lanes < 0 || t.Lanes > 1<<15-1 {
		return fmt.Errorf("plan a tree of %d lanes: the number must be in 0…%d", t.Lanes, 1<<15-1)
	}
	if len(t.Up) != len(t.Slots) {
		return fmt.Errorf("plan a tree of %d leaves: lane states are given for %d leaves", len(t.Slots), len(t.Up))
	}
	if t.Spine != nil && len(t.Spine) != t.Lanes {
		return fmt.Errorf("plan a tree of %d lanes: spines are given for %d", t.Lanes, len(t.Spine))
	}
	most := 0
	for leaf, slots := range t.Slots {
		if len(t.Up[leaf]) != t.Lanes {
			return fmt.Errorf("plan leaf %d: %d lane states are given for %d lanes", leaf, len(t.Up[leaf]), t.Lanes)
		}
		last := -1
		for _, α := range slots {
			if α <= last {
				return fmt.Errorf("plan leaf %d: slot %d follows slot %d; slots must be ascending from 0", leaf, α, last)
			}
			last = α
		}
		most = max(most, last+1)
	}
	if n := t.Servers(); t.Exchange != nil && len(t.Exchange) != n {
		return fmt.Errorf("plan a tree of %d servers: exchanges are given for %d", n, len(t.Exchange))
	}
	if most == 0 {
		return errors.New("plan a tree without servers: at least one is needed")
	}
	if most > maxPlaces/len(t.Slots) {
		return fmt.Errorf("plan a tree of %d leaves with slots up to %d: more than %d places", len(t.Slots), most-1, maxPlaces)
	}
	return nil
}

// shape is a tree in the paper's terms: M1 leaves of M0 places each. Leaves without servers
// are left out, because they take no part in the exchange.
type shape struct {
	M0, M1  int
	leaf    []int    // [γ] index of the leaf in the tree
	at      []Server // [γ·M0+α], Idle if the place is empty
	clean   []Lane   // lanes that are up at every one of the leaves, ascending
	servers int
	divided bool // into several exchanges
}

func newShape(t *Tree) *shape {
	sh := &shape{leaf: make([]int, 0, len(t.Slots)), divided: t.Exchange != nil}
	for leaf, slots := range t.Slots {
		if len(slots) > 0 {
			sh.leaf = append(sh.leaf, leaf)
			sh.M0 = max(sh.M0, slots[len(slots)-1]+1)
		}
	}
	sh.M1 = len(sh.leaf)
	sh.at = make([]Server, sh.M0*sh.M1)
	for i := range sh.at {
		sh.at[i] = Idle
	}
	for γ, leaf := range sh.leaf {
		for _, α := range t.Slots[leaf] {
			sh.at[γ*sh.M0+α] = Server(sh.servers)
			sh.servers++
		}
	}
	sh.clean = make([]Lane, 0, t.Lanes)
	for k := range t.Lanes {
		if sh.upEverywhere(t, k) {
			sh.clean = append(sh.clean, Lane(k))
		}
	}
	return sh
}

func (sh *shape) upEverywhere(t *Tree, k int) bool {
	for _, leaf := range sh.leaf {
		if !t.Up[leaf][k] {
			return false
		}
	}
	return true
}

// reduction returns the f of a schedule that uses clean lanes only: the paper's f if every
// affected spine is dead for all leaves. A single leaf needs no lane.
func (sh *shape) reduction() int {
	if sh.M1 <= 1 {
		return 0
	}
	return max(0, sh.M0-len(sh.clean))
}

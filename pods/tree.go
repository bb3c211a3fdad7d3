// Package pods plans all-to-all exchanges on fat trees of three levels whose cables and
// switches may be damaged: which server sends to which in each phase and over which lane,
// so that no directed cable carries two transfers of one phase. It knows pods, planes,
// leaves, lanes and servers by index, nothing of LIDs or files. docs/planner.md has the
// theorems.
package pods

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/fors"
)

// Tree is the part of a fat tree of three levels that planning needs. A leaf has one cable
// to the mid of each plane of its pod; a lane is a cable from each mid of its plane to one
// top. Traffic between pods takes a lane up and the same lane down; traffic within a pod
// turns at the mid of a plane.
type Tree struct {
	Pods   int
	Leaves []Leaf
	First  []int  // [plane] its first lane; one more at the end, the number of lanes
	Up     []bool // [pod·lanes + lane] whether the cable from the pod's mid to the top lives
	// Places are those of the circle on which leaves are lined up; if there are none, leaves and pods
	// are taken to be equally large. Round is the fewest lanes of a plane that take turns on it.
	Places, Round int
}

// Leaf is a leaf with servers.
type Leaf struct {
	Pod   int
	Slots []int  // the indices α of its servers, strictly ascending
	Place []int  // of each server on the circle, if there is one
	Up    []bool // [plane] whether its cable to the mid lives
	// Exchange has the exchange of each server: it sends to those of the same alone. Nil is one
	// exchange of all, without which there are only bounds and Steps.
	Exchange []int
}

// Planes returns the number of planes.
func (t *Tree) Planes() int { return len(t.First) - 1 }

// Lanes returns the number of lanes.
func (t *Tree) Lanes() int { return t.First[len(t.First)-1] }

// Servers returns the number of servers, numbered leaf by leaf.
func (t *Tree) Servers() int {
	n := 0
	for i := range t.Leaves {
		n += len(t.Leaves[i].Slots)
	}
	return n
}

// validate checks that the tree is consistent.
func (t *Tree) validate() error {
	if t.Pods < 1 || len(t.First) < 1 || len(t.Up) != t.Pods*t.Lanes() {
		return fmt.Errorf("plan three levels: %d pods, %d planes and %d cables to tops do not go together", t.Pods, len(t.First)-1, len(t.Up))
	}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		if l.Pod < 0 || l.Pod >= t.Pods || len(l.Up) != t.Planes() || len(l.Slots) == 0 {
			return fmt.Errorf("plan three levels: leaf %d is in pod %d of %d, has %d cables for %d planes and %d servers", i, l.Pod, t.Pods, len(l.Up), t.Planes(), len(l.Slots))
		}
		for x, α := range l.Slots {
			if α < 0 || x > 0 && α <= l.Slots[x-1] {
				return fmt.Errorf("plan three levels: the indices of leaf %d do not ascend at %d", i, α)
			}
		}
	}
	return nil
}

// Damaged reports whether a cable of a pod or of a leaf with servers is dead.
func (t *Tree) Damaged() bool {
	return slices.Contains(t.Up, false) || slices.ContainsFunc(t.Leaves, func(l Leaf) bool { return slices.Contains(l.Up, false) })
}

// laneUp reports whether a pod's cable of a lane lives.
func (t *Tree) laneUp(pod, lane int) bool { return t.Up[pod*t.Lanes()+lane] }

// planeOf lists the plane of each lane.
func (t *Tree) planeOf() []int32 {
	of := make([]int32, t.Lanes())
	for j := range t.Planes() {
		for k := t.First[j]; k < t.First[j+1]; k++ {
			of[k] = int32(j)
		}
	}
	return of
}

// joins returns, as [pod·pods·planes + pod·planes + plane], whether a plane joins two pods
// by a lane that lives at both; a pod is joined with itself.
func (t *Tree) joins() []bool {
	planes := t.Planes()
	out := make([]bool, t.Pods*t.Pods*planes)
	for p := range t.Pods {
		for q := range t.Pods {
			for j := range planes {
				at := (p*t.Pods+q)*planes + j
				out[at] = p == q
				for k := t.First[j]; k < t.First[j+1] && !out[at]; k++ {
					out[at] = t.laneUp(p, k) && t.laneUp(q, k)
				}
			}
		}
	}
	return out
}

// Engine names how a plan was made.
type Engine string

// The engines. Shift is the linear shift of an undamaged tree, stored as a rule; Leaves
// sets the phases of the leaves first and then colours the tops; Pods sets the blocks of
// the pods first, tops and all, and then seats leaves and servers. Routes takes the ways
// that tables have; package podplan makes such plans where servers have too few LIDs.
const (
	Shift  Engine = "shift"
	Leaves Engine = "leaves"
	Pods   Engine = "pods"
	Routes Engine = "routes"
)

// ByPod is the certificate of a bound by a pod's transfers over its cables to tops; the
// others are those of package fors.
const ByPod fors.Certificate = "pod"

// Bounds limits the number of phases of any plan.
type Bounds struct {
	LowerBound  int // phases
	Certificate fors.Certificate
}

// Idle in a plan is a slot without a destination.
const Idle int32 = -1

// Plan is a schedule with its routing. Time is cut into blocks of Group phases. The
// servers of a leaf form groups of Group, the last one perhaps smaller, and each group
// has Group slots: a destination and a way to it for one block. Member i of a group
// serves slot (i+t) mod Group in phase t of the block; a server's turn at itself is idle.
// With groups of one, blocks are phases and slots are servers.
//
// The linear shift is a rule: To is nil, and server s sends to the server on place
// (place of s + phase + 1) mod Places.
type Plan struct {
	Engine Engine
	Group  int
	Blocks int
	First  []int32 // [leaf] its first slot; one more at the end, the slots of a block
	Base   []int32 // [leaf] its first server; one more at the end
	To     []int32 // [block·slots + slot] destination, Idle without one
	Way    []int16 // like To: the lane; lanes + plane within a pod; −1 within a leaf
	// Places and Place are those of the shift: all that a leaf may have, for every leaf.
	Places  int
	Place   []int32 // [server]
	ShiftTo []int32 // [place] its server, or Idle
	Bounds
	Unreachable []fors.Pair // pairs without a way, in order; they are in no phase
}

// Trim drops the last blocks, if nothing is sent in them.
func (p *Plan) Trim() {
	for p.Engine != Shift && p.Blocks > 0 && !p.sends(p.Blocks-1) {
		p.Blocks--
		slots := p.Blocks * int(p.First[len(p.First)-1])
		p.To, p.Way = p.To[:slots], p.Way[:slots]
	}
}

// sends reports whether any server sends to another one in a block.
func (p *Plan) sends(block int) bool {
	to := p.To[block*int(p.First[len(p.First)-1]):]
	for a, first := range p.First[:len(p.First)-1] {
		for s := first; s < p.First[a+1]; s++ {
			member := p.Base[a] + (s-first)/int32(p.Group)*int32(p.Group)
			alone := p.Group == 1 || member+1 == p.Base[a+1]
			if d := to[s]; d != Idle && (d != member || !alone) {
				return true
			}
		}
	}
	return false
}

// Phases returns the number of phases.
func (p *Plan) Phases() int {
	if p.Engine == Shift {
		return max(0, p.Places-1)
	}
	return p.Blocks * p.Group
}

// Gap returns the number of phases over the lower bound.
func (p *Plan) Gap() int { return p.Phases() - p.LowerBound }

// Row fills to and way, which have an element for each server, with the transfers of a
// phase. Ways of the shift are −1, because they are those of the tables. If beside, an
// array like To, is given, picked gets its elements; both may be nil.
func (p *Plan) Row(phase int, to []int32, way []int16, beside, picked []uint8) {
	for s := range to {
		to[s], way[s] = Idle, -1
	}
	clear(picked)
	if p.Engine == Shift {
		for s, at := range p.Place {
			to[s] = p.ShiftTo[(int(at)+phase+1)%p.Places]
		}
		return
	}
	block, turn := phase/p.Group, phase%p.Group
	slots := int(p.First[len(p.First)-1])
	for leaf := range len(p.First) - 1 {
		at, end := block*slots+int(p.First[leaf]), p.Base[leaf+1]
		for first := p.Base[leaf]; first < end; first, at = first+int32(p.Group), at+p.Group {
			slot := at + turn
			for s := first; s < min(end, first+int32(p.Group)); s++ {
				if d := p.To[slot]; d != s {
					to[s], way[s] = d, p.Way[slot]
					if beside != nil {
						picked[s] = beside[slot]
					}
				}
				if slot++; slot == at+p.Group {
					slot = at
				}
			}
		}
	}
}

package topology

import (
	"fmt"

	"github.com/forsd/forsd/ib"
)

// A fat tree of three levels. Leaves and mids form pods; the mids of a plane, one of each
// pod, have cables to the same tops. A path between two pods goes up over a lane: a plane,
// and a cable of its mid to a top; it comes down by the same lane. Within a pod it turns at
// the mid.

// PodTree is a fat tree of three levels seen through its baseline. Pods, planes, lanes,
// leaves, mids and tops are numbered as in the baseline, whether present or not.
type PodTree struct {
	Common                // of a host on a mid or top, Spine is the node of that switch
	Baseline *PodBaseline // with the newcomers of this fabric
	Pods     int
	// Planes counts the cables that a leaf may have upwards: one plane for each mid of a
	// pod or, with parallel cables, for each cable to it. Planes of one mid share it out:
	// each has lanes of its own.
	Planes int
	Lanes  []PodLane // those of a plane in a row
	First  []int     // [plane] its first lane, one more at the end
	MidOf  []int     // [plane] the index of its mids within their pods
	Leaves []PodLeaf
	InPod  []int // [leaf] its number in its pod
	Turns  int   // how many lanes every plane has
	Mids   []Mid // [pod·mids of a pod + index]
	Tops   []Top
}

// PodLane is a way through the top of the tree.
type PodLane struct {
	Plane int
	Top   int // index of its top
	Cable int // its number among the cables of the plane's mids to the top
}

// PodLeaf is a leaf switch of the baseline.
type PodLeaf struct {
	Node   int32 // None while it is absent
	GUID   ib.GUID
	Name   string
	Pod    int
	Cables []Cable // [plane]
}

// Mid is a switch of the middle level of the baseline.
type Mid struct {
	Node   int32 // None while it is absent, or if the pod never had it
	GUID   ib.GUID
	Name   string
	Pod    int
	Cables []Cable // [lane]; those of other mids' planes are NoCable
}

// Top is a switch of the highest level of the baseline.
type Top struct {
	Node int32 // None while it is absent
	GUID ib.GUID
	Name string
}

// MidsPerPod returns how many mids a pod may have.
func (t *PodTree) MidsPerPod() int {
	if t.Pods == 0 {
		return 0
	}
	return len(t.Mids) / t.Pods
}

// Mid returns the mid of a pod that a plane passes.
func (t *PodTree) Mid(pod, plane int) *Mid { return &t.Mids[pod*t.MidsPerPod()+t.MidOf[plane]] }

// LanesOf returns the lanes of the planes that pass a mid: from the first up to the end.
func (t *PodTree) LanesOf(mid int) (first, end int) { return t.Baseline.lanesOfMid(mid) }

// LeafUp reports whether schedules may use a leaf's cable of a plane.
func (t *PodTree) LeafUp(leaf, plane int) bool { return t.Leaves[leaf].Cables[plane].State == Full }

// LaneUp reports whether schedules may use a pod's cable of a lane, from mid to top.
func (t *PodTree) LaneUp(pod, lane int) bool {
	return t.Mid(pod, t.Lanes[lane].Plane).Cables[lane].State == Full
}

// Subscription returns the hosts per cable of a leaf, and the cables to leaves per cable to
// tops of a mid, of the most loaded leaf and mid, in the baseline; values up to 1 mean no
// oversubscription.
func (t *PodTree) Subscription() (leaf, mid float64) {
	down := make([]int, len(t.Mids))
	for l := range t.Leaves {
		b := &t.Baseline.Leaves[l]
		hosts, up := 0, 0
		for _, s := range b.Slots {
			if s.GUID != 0 {
				hosts++
			}
		}
		for j, u := range b.Uplinks {
			if u != (Uplink{}) {
				up++
				down[b.Pod*t.MidsPerPod()+t.MidOf[j]]++
			}
		}
		leaf = max(leaf, float64(hosts)/float64(max(1, up)))
	}
	for m := range t.Mids {
		up := 0
		for _, u := range t.Baseline.Mids[m].Uplinks {
			if u != (Uplink{}) {
				up++
			}
		}
		mid = max(mid, float64(down[m])/float64(max(1, up)))
	}
	return leaf, mid
}

// HoldLeaf takes a leaf's cable of a plane out of schedules if it is Full: it becomes
// Degraded.
func (t *PodTree) HoldLeaf(leaf, plane int) { t.Leaves[leaf].Cables[plane].hold() }

// HoldMid does so with a mid's cable of a lane.
func (t *PodTree) HoldMid(mid, lane int) { t.Mids[mid].Cables[lane].hold() }

// Exchange returns the tree as a FatTree for code that follows exchanges: its leaves, hosts
// and servers, and its lanes with their tops as spines. Planes are lanes too, after the
// others, for traffic that turns at a mid. A leaf's lane is in the state of the worse of
// its two cables, but never Missing: the cables have no ports, and their baseline is that
// of three levels.
func (t *PodTree) Exchange() *FatTree {
	two := &FatTree{Common: t.Common, Baseline: &Baseline{Pods: t.Baseline}, Lanes: len(t.Lanes) + t.Planes, Pods: t}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		cables := make([]Cable, two.Lanes)
		for k, lane := range t.Lanes {
			cables[k].State = min(leaf.Cables[lane.Plane].State, t.Mid(leaf.Pod, lane.Plane).Cables[k].State)
		}
		for j, c := range leaf.Cables {
			cables[len(t.Lanes)+j].State = c.State
		}
		for k := range cables {
			if cables[k].State == Missing {
				cables[k].State = NoCable
			}
		}
		two.Leaves = append(two.Leaves, Leaf{Node: leaf.Node, GUID: leaf.GUID, Name: leaf.Name, Cables: cables})
	}
	for _, lane := range t.Lanes {
		two.LaneOf = append(two.LaneOf, lane.Top)
	}
	for k := range t.Tops {
		two.Spines = append(two.Spines, Spine{Node: t.Tops[k].Node, GUID: t.Tops[k].GUID, Name: t.Tops[k].Name})
	}
	for j := range t.Planes {
		two.LaneOf = append(two.LaneOf, len(two.Spines))
		two.Spines = append(two.Spines, Spine{Node: None, Name: fmt.Sprintf("plane %d, within the pod", j)})
	}
	return two
}

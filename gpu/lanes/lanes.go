// Package lanes pins the stages of an exchange between GPUs on the lanes of the fat tree
// that joins their NICs, so that the network is free of conflicts too: in each part of a
// stage, a cable carries at most one transfer each way. A stage in which a leaf has more
// transfers to send or to receive than live lanes is cut into parts, each of which leaves
// out different transfers. The package does not depend on how stages are made.
package lanes

import (
	"context"
	"errors"
	"fmt"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Send is the data that the NIC of one rank sends to that of another in a stage: bytes of
// the stream between the two.
type Send struct {
	From   int32 `json:"from"`
	To     int32 `json:"to"`
	Offset int64 `json:"offset"` // from the stream's beginning
	Bytes  int64 `json:"bytes"`
}

// Stage is a step in which a NIC sends to at most one other and receives from at most one.
type Stage []Send

// Length is the size of the stage's largest transfer.
func (s Stage) Length() (most int64) {
	for i := range s {
		most = max(most, s[i].Bytes)
	}
	return most
}

// Request asks for the lanes of an exchange.
type Request struct {
	Hosts  []string `json:"hosts"` // [rank] name or port GUID of its NIC, or ""
	Stages []Stage  `json:"stages"`
	// The time of a part is that of its largest transfer at this rate, plus a latency.
	BytesPerSecond float64 `json:"bytes_per_second"`
	LatencySeconds float64 `json:"latency_seconds"`
}

// Transfer is a Send, or a stretch of it, with the LID of the destination that it is sent to.
type Transfer struct {
	Send
	Lane int    `json:"lane"` // −1 on a leaf
	DLID ib.LID `json:"dlid"`
}

// Part is a part of a stage.
type Part struct {
	Stage     int        `json:"stage"`
	Length    int64      `json:"length"` // bytes of its largest transfer
	Transfers []Transfer `json:"transfers"`
}

// Plan is an exchange on a fabric.
type Plan struct {
	Lanes int `json:"lanes"`
	// Length is the sum over all parts, in bytes per NIC. Bound is the least length that the
	// live lanes of each leaf allow for these stages, one after another.
	Length  int64    `json:"length"`
	Bound   int64    `json:"bound"`
	Seconds float64  `json:"predicted_seconds"` // of all parts
	Hosts   []string `json:"hosts"`             // [rank] or "" if it has no NIC
	Leaf    []int    `json:"leaf"`              // [rank] of its NIC, or −1
	Down    [][]int  `json:"down"`              // [leaf] lanes that are down there
	Parts   []Part   `json:"parts"`
}

// check finds mistakes in a request.
func (q *Request) check() error {
	if !(q.BytesPerSecond > 0 && q.BytesPerSecond <= 1e18) || !(q.LatencySeconds >= 0 && q.LatencySeconds <= 1e9) {
		return errors.New("want bytes_per_second of up to 1e18 and latency_seconds of 0 to 1e9")
	}
	for i, stage := range q.Stages {
		if len(stage) == 0 {
			return fmt.Errorf("stage %d has no transfer", i)
		}
		sends, receives := map[int32]bool{}, map[int32]bool{}
		for _, x := range stage {
			switch n := int32(len(q.Hosts)); {
			case x.From < 0 || x.To < 0 || x.From >= n || x.To >= n || q.Hosts[x.From] == "" || q.Hosts[x.To] == "":
				return fmt.Errorf("stage %d: rank %d sends to rank %d: want ranks of 0 to %d that have hosts", i, x.From, x.To, n-1)
			case x.From == x.To || sends[x.From] || receives[x.To]:
				return fmt.Errorf("stage %d: rank %d sends to rank %d: want a rank to send to one other and to receive from one other", i, x.From, x.To)
			case x.Bytes < 1 || x.Offset < 0 || x.Bytes > most || x.Offset > most:
				return fmt.Errorf("stage %d: rank %d sends %d bytes from %d on: want 1 to 2^61 bytes, from 0 to 2^61", i, x.From, x.Bytes, x.Offset)
			}
			sends[x.From], receives[x.To] = true, true
		}
	}
	return nil
}

// most bounds numbers of bytes, so that their sums do not overflow.
const most = 1 << 61

// find returns the host of each rank, an index into tree.Hosts, or −1.
func find(tree *topology.FatTree, names []string) ([]int, error) {
	number, count := make(map[string]int, 2*len(tree.Hosts)), map[string]int{}
	for at, h := range tree.Hosts {
		number[h.Name], number[h.GUID.String()] = at, at
		count[h.Name]++
	}
	host, rank := make([]int, len(names)), map[int]int{}
	for r, name := range names {
		if host[r] = -1; name == "" {
			continue
		}
		h, is := number[name]
		if !is {
			return nil, fmt.Errorf("%.100s is not a host of the fabric: want names or GUIDs as forsctl topology --json has them", name)
		}
		if n := count[name]; n > 1 {
			return nil, fmt.Errorf("%d hosts are called %.100s: name this one by its port GUID", n, name)
		}
		if other, taken := rank[h]; taken {
			return nil, fmt.Errorf("%s is the NIC of rank %d and of rank %d: want one for each, and no NIC of several channels", tree.Hosts[h].Name, other, r)
		}
		host[r], rank[h] = h, r
	}
	return host, nil
}

// Pin pins the stages of a request on the lanes of a tree that planner.Settings.Apart has
// processed. If ctx ends, it cuts the remaining stages into as few parts as possible, without
// trying alternatives.
func Pin(ctx context.Context, q *Request, tree *topology.FatTree) (*Plan, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	host, err := find(tree, q.Hosts)
	if err != nil {
		return nil, err
	}
	x := &pinner{tree: tree, host: host, rate: q.BytesPerSecond, latency: q.LatencySeconds, living: make([]int, len(tree.Leaves))}
	plan := &Plan{Lanes: tree.Lanes, Hosts: make([]string, len(host)), Leaf: make([]int, len(host)), Down: make([][]int, len(tree.Leaves)), Parts: []Part{}}
	x.lists = bipartite.NewLists(len(tree.Leaves), tree.Lanes, func(leaf, lane int) bool { return !tree.LaneUp(leaf, lane) })
	for leaf := range tree.Leaves {
		plan.Down[leaf] = []int{}
		for lane := range tree.Lanes {
			if tree.LaneUp(leaf, lane) {
				x.living[leaf]++
			} else {
				plan.Down[leaf] = append(plan.Down[leaf], lane)
			}
		}
	}
	for r, h := range host {
		if plan.Leaf[r] = -1; h >= 0 {
			plan.Hosts[r], plan.Leaf[r] = tree.Hosts[h].Name, tree.Hosts[h].Leaf
		}
	}
	for number, stage := range q.Stages {
		parts, bound, err := x.stage(ctx, number, stage)
		if err != nil {
			return nil, err
		}
		plan.Parts = append(plan.Parts, parts...)
		plan.Bound += bound
	}
	for i := range plan.Parts {
		plan.Length += plan.Parts[i].Length
	}
	plan.Seconds = x.time(plan.Parts)
	return plan, nil
}

// Verify checks a plan on a fabric's tables, independently of how it was made: its parts
// carry the same data as the stages, and every transfer of a part, traced by its LID from
// switch to switch, arrives over cables that no other transfer of the part takes.
func (x *Plan) Verify(q *Request, tree *topology.FatTree, tables *lft.Tables) error {
	if err := x.Carries(q); err != nil {
		return err
	}
	host, err := find(tree, q.Hosts)
	if err != nil {
		return err
	}
	var ends []topology.EndPort
	number := make([]int32, len(host))
	for r, h := range host {
		if number[r] = int32(len(ends)); h >= 0 {
			ends = append(ends, tree.Hosts[h].EndPort)
		}
	}
	walk, err := verify.NewWalk(tree.Fabric, tables, ends)
	if err != nil {
		return err
	}
	for i := range x.Parts {
		var transfers []verify.Transfer
		for _, t := range x.Parts[i].Transfers {
			transfers = append(transfers, verify.Transfer{Src: number[t.From], Dst: number[t.To], DLID: t.DLID})
		}
		walk.Again()
		if err := walk.Phase(transfers); err != nil {
			return fmt.Errorf("part %d, of stage %d: %w", i, x.Parts[i].Stage, err)
		}
	}
	return nil
}

// stretch is the part of a stream that is carried: from first up to next.
type stretch struct{ first, next int64 }

// Carries checks that the parts of a plan carry the stages of a request, one after another,
// and each transfer from its first byte to its last.
func (x *Plan) Carries(q *Request) error {
	at, length := 0, int64(0)
	for stage, sends := range q.Stages {
		carried := map[[2]int32]stretch{}
		for ; at < len(x.Parts) && x.Parts[at].Stage == stage; at++ {
			part := &x.Parts[at]
			length += part.Length
			for _, t := range part.Transfers {
				if t.From < 0 || t.To < 0 || int(max(t.From, t.To)) >= len(q.Hosts) || q.Hosts[t.From] == "" || q.Hosts[t.To] == "" || t.Bytes < 1 || t.Bytes > part.Length {
					return fmt.Errorf("part %d: %d bytes from rank %d to rank %d: want two NICs, and 1 to %d bytes", at, t.Bytes, t.From, t.To, part.Length)
				}
				before, some := carried[[2]int32{t.From, t.To}]
				if !some {
					before = stretch{t.Offset, t.Offset}
				}
				if t.Offset != before.next {
					return fmt.Errorf("part %d: byte %d from rank %d to rank %d follows byte %d", at, t.Offset, t.From, t.To, before.next)
				}
				carried[[2]int32{t.From, t.To}] = stretch{before.first, t.Offset + t.Bytes}
			}
		}
		for _, t := range sends {
			pair := [2]int32{t.From, t.To}
			if got, want := carried[pair], (stretch{t.Offset, t.Offset + t.Bytes}); got != want {
				return fmt.Errorf("stage %d: parts carry bytes %d to %d from rank %d to rank %d, want %d to %d", stage, got.first, got.next, t.From, t.To, want.first, want.next)
			}
			delete(carried, pair)
		}
		if len(carried) > 0 {
			return fmt.Errorf("stage %d: parts carry bytes between %d pairs of ranks that the stage does not have", stage, len(carried))
		}
	}
	if at != len(x.Parts) || length != x.Length {
		return fmt.Errorf("%d of %d parts are of the exchange's stages in their order, %d bytes long in place of %d", at, len(x.Parts), length, x.Length)
	}
	return nil
}

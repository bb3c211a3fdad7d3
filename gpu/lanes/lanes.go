// Package lanes pins the stages of an exchange between GPUs on the lanes of the fat tree
// that joins their NICs, so that it is free of conflict in the network too: in each part of
// a stage, a cable carries one transfer each way at most. A stage in which a leaf has more
// to send or to receive than it has living lanes is cut into parts that leave out another
// of its transfers each time.
package lanes

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Transfer is what one NIC sends to another in a part: bytes of the stream between the
// two, to a LID of the destination.
type Transfer struct {
	From   gpu.Rank     `json:"from"`
	To     gpu.Rank     `json:"to"`
	Offset int64        `json:"offset"`
	Bytes  int64        `json:"bytes"`
	Lane   int          `json:"lane"` // −1 on a leaf
	DLID   topology.LID `json:"dlid"`
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
	// Length is that of all parts, bytes a NIC. Bound is what the lanes that live allow, for
	// these stages one after the other.
	Length  int64    `json:"length"`
	Bound   int64    `json:"bound"`
	Seconds float64  `json:"seconds"` // of all parts, by the model
	Hosts   []string `json:"hosts"`   // [rank], "" where a rank has no NIC
	Parts   []Part   `json:"parts"`

	host []int // [rank] in the tree's hosts, −1 for none
}

// Report is a plan for programs and people, with how it lies on a fabric.
type Report struct {
	*gpu.Report
	Fabric *Plan `json:"fabric,omitempty"`
}

// Request asks for a schedule over HTTP. Its fields are the flags of forsplan gpu schedule.
type Request struct {
	Traffic       [][]float64 `json:"traffic,omitempty"` // bytes, [source][destination]
	Routing       [][]float64 `json:"routing,omitempty"` // or tokens, [GPU][expert]
	TokenBytes    int64       `json:"token_bytes,omitempty"`
	Return        bool        `json:"return,omitempty"`
	GPUsPerServer int         `json:"gpus_per_server,omitempty"`
	Site          *gpu.Site   `json:"site,omitempty"`      // what each server has, in place of gpus_per_server
	BadNICs       []string    `json:"bad_nics,omitempty"`  // or what has failed: "SERVER:NIC", "SERVER:NIC:PERCENT"
	DeadGPUs      []string    `json:"dead_gpus,omitempty"` // "SERVER:GPU"
	Rails         bool        `json:"rails,omitempty"`
	gpu.Options
	B1       *float64  `json:"b1,omitempty"` // bytes a second
	B2       *float64  `json:"b2,omitempty"`
	Latency  string    `json:"latency,omitempty"`  // such as "10us"
	Budget   string    `json:"budget,omitempty"`   // likewise
	Programs bool      `json:"programs,omitempty"` // answer with the lists of all ranks
	Rank     *gpu.Rank `json:"rank,omitempty"`     // or with that of one
	Fabric   bool      `json:"fabric,omitempty"`   // pin the stages on the lanes of forsd's own fabric
	NICs     []string  `json:"nics,omitempty"`     // its hosts that are the NICs, server by server; all of them if empty
}

// NICs finds the hosts of a tree that are the NICs of a plan, by names or GUIDs, server by
// server; without names they are all servers of the tree, in its order.
func NICs(p *gpu.Plan, tree *topology.FatTree, names []string) ([]int, error) {
	if len(names) == 0 {
		want := p.Ranks()
		if p.Site != nil {
			want = len(tree.Servers)
		}
		if len(tree.Servers) != want {
			return nil, fmt.Errorf("it has %d hosts, and the exchange %d NICs: name these", len(tree.Servers), want)
		}
		return tree.Servers, nil
	}
	number := make(map[string]int, 2*len(tree.Hosts))
	for at, h := range tree.Hosts {
		number[h.Name], number[h.GUID.String()] = at, at
	}
	list := make([]int, len(names))
	for i, name := range names {
		at, ok := number[name]
		if !ok {
			return nil, fmt.Errorf("%.100s is not a host of the fabric: want names or GUIDs as forsctl topology --json has them", name)
		}
		list[i] = at
	}
	return list, nil
}

// Pin pins a plan on the lanes of a tree. nics are the hosts, numbers in tree.Hosts, that
// are the NICs of server 0, of server 1, and so on, as many of each. Stages that are left when
// ctx ends are cut into as few parts as can be, and no other ways are tried.
func Pin(ctx context.Context, p *gpu.Plan, m gpu.Model, tree *topology.FatTree, nics []int) (*Plan, error) {
	host, err := hosts(p, tree, nics)
	if err != nil {
		return nil, err
	}
	x := &pinner{tree: tree, host: host, model: m, living: make([]int, len(tree.Leaves))}
	for leaf := range tree.Leaves {
		for lane := range tree.Lanes {
			if tree.LaneUp(leaf, lane) {
				x.living[leaf]++
			}
		}
	}
	plan := &Plan{Lanes: tree.Lanes, Hosts: make([]string, len(host)), Parts: []Part{}, host: host}
	for r, h := range host {
		if h >= 0 {
			plan.Hosts[r] = tree.Hosts[h].Name
		}
	}
	for stage := range p.Stages {
		parts, bound, err := x.stage(ctx, stage, &p.Stages[stage])
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

// hosts are the NICs' of the ranks, −1 for a rank without one.
func hosts(p *gpu.Plan, tree *topology.FatTree, nics []int) ([]int, error) {
	if len(nics)%p.Servers != 0 {
		return nil, fmt.Errorf("%d NICs of %d servers: want as many of each", len(nics), p.Servers)
	}
	each := len(nics) / p.Servers
	host, rank := make([]int, p.Ranks()), map[int]int{}
	for r := range host {
		server, nic := r/p.GPUs, r%p.GPUs
		if p.Site != nil {
			nic = p.Site.Place[r].NIC
		}
		if host[r] = -1; nic < 0 {
			continue
		}
		if nic >= each {
			return nil, fmt.Errorf("NIC %d of server %d is not in the fabric: there are %d of each server", nic, server, each)
		}
		h := nics[server*each+nic]
		if other, taken := rank[h]; taken {
			return nil, fmt.Errorf("%s is the NIC of rank %d and of rank %d: want one for each, and no NIC of several channels", tree.Hosts[h].Name, other, r)
		}
		host[r], rank[h] = h, r
	}
	return host, nil
}

// Verify checks a plan on a fabric's tables, and knows nothing of how it was made: its parts
// carry what the stages do, piece by piece; and every transfer of a part, followed by its
// LID from switch to switch, arrives, over cables that no other transfer of the part takes.
func (x *Plan) Verify(p *gpu.Plan, tree *topology.FatTree, tables *lft.Tables) error {
	var ends []topology.EndPort
	number := make([]int32, len(x.host))
	for r, h := range x.host {
		if number[r] = int32(len(ends)); h >= 0 {
			ends = append(ends, tree.Hosts[h].EndPort)
		}
	}
	walk, err := verify.NewWalk(tree.Fabric, tables, ends)
	if err != nil {
		return err
	}
	at, length := 0, int64(0)
	for stage := range p.Stages {
		done := map[[2]gpu.Rank]int64{}
		for ; at < len(x.Parts) && x.Parts[at].Stage == stage; at++ {
			part := &x.Parts[at]
			length += part.Length
			var transfers []verify.Transfer
			for _, t := range part.Transfers {
				if t.From < 0 || t.To < 0 || int(max(t.From, t.To)) >= len(x.host) || x.host[t.From] < 0 || x.host[t.To] < 0 || t.Bytes < 1 || t.Bytes > part.Length {
					return fmt.Errorf("part %d: %d bytes from rank %d to rank %d: want two NICs, and 1 to %d bytes", at, t.Bytes, t.From, t.To, part.Length)
				}
				pair := [2]gpu.Rank{t.From, t.To}
				first, some := done[pair]
				if some && first != t.Offset {
					return fmt.Errorf("part %d: byte %d from rank %d to rank %d follows byte %d", at, t.Offset, t.From, t.To, first)
				}
				if !some {
					done[pair] = t.Offset
				}
				done[pair] = t.Offset + t.Bytes
				transfers = append(transfers, verify.Transfer{Src: number[t.From], Dst: number[t.To], DLID: t.DLID})
			}
			walk.Again()
			if err := walk.Phase(transfers); err != nil {
				return fmt.Errorf("part %d, of stage %d: %w", at, stage, err)
			}
		}
		if err := carries(x.Parts, stage, &p.Stages[stage], done); err != nil {
			return err
		}
	}
	if at != len(x.Parts) || length != x.Length {
		return fmt.Errorf("%d of %d parts are of the plan's stages in their order, %d bytes long in place of %d", at, len(x.Parts), length, x.Length)
	}
	return nil
}

// carries tells whether the parts of a stage carry its transfers from their first byte to
// their last; done is the byte after the last of each pair.
func carries(parts []Part, stage int, s *gpu.Stage, done map[[2]gpu.Rank]int64) error {
	carried := map[[2]gpu.Rank]int64{}
	for i := range parts {
		if parts[i].Stage != stage {
			continue
		}
		for _, t := range parts[i].Transfers {
			carried[[2]gpu.Rank{t.From, t.To}] += t.Bytes
		}
	}
	for _, t := range s.Transfers {
		pair := [2]gpu.Rank{t.From, t.To}
		if carried[pair] != t.Bytes || done[pair] != t.Offset+t.Bytes {
			return fmt.Errorf("stage %d: parts carry %d bytes from rank %d to rank %d up to byte %d, want %d up to %d", stage, carried[pair], t.From, t.To, done[pair], t.Bytes, t.Offset+t.Bytes)
		}
		delete(carried, pair)
	}
	for pair, bytes := range carried {
		return fmt.Errorf("stage %d: parts carry %d bytes from rank %d to rank %d, and the stage none", stage, bytes, pair[0], pair[1])
	}
	return nil
}

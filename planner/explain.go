package planner

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Explanation is the transfer of one ordered pair of servers in a plan.
type Explanation struct {
	Epoch uint64   `json:"epoch"`
	Src   Endpoint `json:"src"`
	Dst   Endpoint `json:"dst"`
	Phase int      `json:"phase"`
	Lane  int      `json:"lane"`  // −1 within a leaf
	Spine string   `json:"spine"` // of the lane, empty within a leaf
	DLID  ib.LID   `json:"dlid"`
	Hops  []Step   `json:"hops"`
}

// Endpoint identifies a server.
type Endpoint struct {
	GUID ib.GUID `json:"guid"`
	Name string  `json:"name"`
	LID  ib.LID  `json:"lid"`
	Leaf string  `json:"leaf"`
}

// Step is a switch on the path.
type Step struct {
	Switch  string `json:"switch"`
	InPort  int    `json:"in_port"`
	OutPort int    `json:"out_port"`
	To      string `json:"to"` // the port at the other end of the cable
}

// Explain follows the transfer from src to dst: its phase, its lane, and every hop through
// the tables.
func Explain(t *topology.FatTree, tables *lft.Tables, table *phasetable.View, src, dst int) (*Explanation, error) {
	e := &Explanation{Epoch: table.Epoch(), Src: endpoint(t, table, src), Dst: endpoint(t, table, dst), Phase: -1}
	row := table.Row(src)
	for p := range table.Phases() {
		if x := row.At(p); x.SendTo == dst {
			e.Phase, e.Lane, e.DLID = p, x.Lane, x.DLID
			break
		}
	}
	if e.Phase < 0 {
		return nil, fmt.Errorf("the plan has no transfer from %s to %s", e.Src.Name, e.Dst.Name)
	}
	if e.Lane >= 0 && e.Lane < t.Lanes {
		e.Spine = t.Spines[t.LaneOf[e.Lane]].Name
	}
	from, ok := portOf(t, e.Src.GUID)
	if !ok {
		return nil, fmt.Errorf("%s (%s) is not attached to the fabric now", e.Src.Name, e.Src.GUID)
	}
	hops, err := tables.Trace(t.Fabric, from, e.DLID)
	if err != nil {
		return nil, fmt.Errorf("phase %d: %w", e.Phase, err)
	}
	for _, h := range hops {
		n := &t.Fabric.Nodes[h.Node]
		if n.Kind != topology.Switch {
			continue
		}
		step := Step{Switch: n.Label(), InPort: int(h.In), OutPort: int(h.Out)}
		if p := &n.Ports[h.Out]; p.Connected() {
			step.To = t.Fabric.PortLabel(topology.PortRef{Node: p.Peer, Port: p.PeerPort})
		}
		e.Hops = append(e.Hops, step)
	}
	return e, nil
}

func endpoint(t *topology.FatTree, table *phasetable.View, s int) Endpoint {
	x := table.Server(s)
	e := Endpoint{GUID: x.GUID, Name: x.Name, LID: x.LID}
	if x.Leaf >= 0 && x.Leaf < len(t.Leaves) {
		e.Leaf = t.Leaves[x.Leaf].Name
	}
	return e
}

func portOf(t *topology.FatTree, g ib.GUID) (topology.PortRef, bool) {
	for i := range t.Hosts {
		if t.Hosts[i].GUID == g {
			return t.Hosts[i].PortRef, true
		}
	}
	return topology.PortRef{}, false
}

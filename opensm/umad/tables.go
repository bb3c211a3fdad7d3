package umad

import (
	"context"
	"errors"
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Tables reads the forwarding tables of all switches of a fabric, each up to the top of its
// SwitchInfo, including the last block. Switches are asked by LID, and by a directed route
// over the fabric's cables if the LID leads nowhere. Tables are in the order of the
// fabric's nodes. If a switch does not answer, or another one does in its place, the error
// names it, and the tables of the others are returned with it; every other error is
// returned alone.
func (r *Reader) Tables(ctx context.Context, f *topology.Fabric) (*lft.Tables, error) {
	node, number, _, err := r.Self(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the switches' tables: %w", err)
	}
	from := f.Find(node)
	if from == topology.None {
		return nil, fmt.Errorf("read the switches' tables: local port %s is not in this fabric: choose another one", r.port)
	}
	t := newTableBurst(ctx, f, Routes(f, from, number))
	if err := r.loop.do(&t.burst); err != nil {
		return nil, fmt.Errorf("read the switches' tables: %w", err)
	}
	return t.result()
}

// tableBurst reads the tables of a fabric's switches.
type tableBurst struct {
	burst
	switches []*topology.Node // [peer]
	tables   []lft.Table      // [peer]
}

func newTableBurst(ctx context.Context, f *topology.Fabric, routes [][]uint8) *tableBurst {
	t := &tableBurst{burst: burst{ctx: ctx}}
	t.known, t.answer = t.identified, t.receive
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		p := peer{guid: n.GUID, ways: Node{LID: n.LID(), Route: routes[i]}.ways()}
		if len(p.ways) == 0 {
			p.err = errors.New("neither a LID nor a route to it is known")
		}
		t.switches, t.peers = append(t.switches, n), append(t.peers, p)
		t.tables = append(t.tables, lft.Table{GUID: n.GUID, LID: n.LID(), Name: n.Name, Ports: len(n.Ports) - 1})
	}
	return t
}

// identified asks a switch that has said who it is how far its table reaches.
func (t *tableBurst) identified(node int) error {
	if kind := t.peers[node].info.kind; kind != topology.Switch {
		return fmt.Errorf("it is a %s", kind)
	}
	t.ask(node, attrSwitchInfo, 0)
	return nil
}

// receive keeps a block, and asks for all of them once it is known how many there
// are.
func (t *tableBurst) receive(q question, data []byte) error {
	table := &t.tables[q.node]
	if q.attr == attrLinearTable {
		copy(table.Out[int(q.mod)*lft.Block:], data)
		return nil
	}
	top, err := parseSwitchInfo(data)
	if err != nil {
		return err
	}
	table.Out = make([]uint8, int(top)+1)
	for block := range uint32(top)/lft.Block + 1 {
		t.ask(q.node, attrLinearTable, block)
	}
	return nil
}

// result returns what was read, and the error that names what was not.
func (t *tableBurst) result() (*lft.Tables, error) {
	got := &lft.Tables{}
	var errs []error
	for i := range t.peers {
		if err := t.peers[i].err; err != nil {
			errs = append(errs, fmt.Errorf("read the table of switch %s: %w", t.switches[i], err))
			continue
		}
		t.tables[i].Out[0] = lft.NoPath // LID 0 is reserved
		got.Switches = append(got.Switches, t.tables[i])
	}
	return got, errors.Join(errs...)
}

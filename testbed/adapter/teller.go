package adapter

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Teller describes a fabric and its changes to the fabric's process. Nodes are known to
// the process by their places in the fabric.
type Teller struct {
	out    *bufio.Writer
	fabric *topology.Fabric
	tables [][]uint8 // [node] as told
	up     [][]bool  // [node][port] as told
}

// NewTeller prepares the description of a fabric that is still unknown to the process.
func NewTeller(out io.Writer, f *topology.Fabric) *Teller {
	t := &Teller{out: bufio.NewWriter(out), fabric: f, tables: make([][]uint8, len(f.Nodes)), up: make([][]bool, len(f.Nodes))}
	for i := range f.Nodes {
		t.up[i] = make([]bool, len(f.Nodes[i].Ports))
	}
	return t
}

// Describe sends nodes, cables, LIDs and the states of links.
func (t *Teller) Describe() error {
	for i := range t.fabric.Nodes {
		n := &t.fabric.Nodes[i]
		kind := "host"
		if n.Kind == topology.Switch {
			kind = "switch"
		}
		fmt.Fprintf(t.out, "node %s %x %d %s\n", kind, uint64(n.GUID), len(n.Ports)-1, n.Label())
	}
	for i := range t.fabric.Nodes {
		n := &t.fabric.Nodes[i]
		for p := 1; p < len(n.Ports); p++ {
			port := &n.Ports[p]
			if port.Connected() && (port.Peer > int32(i) || port.Peer == int32(i) && int(port.PeerPort) > p) {
				fmt.Fprintf(t.out, "link %d %d %d %d\n", i, p, port.Peer, port.PeerPort)
			}
			if n.Kind != topology.Switch {
				fmt.Fprintf(t.out, "host %d %d %d %d\n", i, p, port.LID, port.LMC)
			}
		}
	}
	return t.Links(t.fabric)
}

// Links sends the states of links in f, a later state of the fabric, that have changed.
// A link is up if both its ends are.
func (t *Teller) Links(f *topology.Fabric) error {
	for i := range t.up {
		for p := 1; p < len(t.up[i]); p++ {
			port := &f.Nodes[i].Ports[p]
			up := port.Up() && f.Nodes[port.Peer].Ports[port.PeerPort].Up()
			if up == t.up[i][p] {
				continue
			}
			t.up[i][p] = up
			state := 0
			if up {
				state = 1
			}
			fmt.Fprintf(t.out, "state %d %d %d\n", i, p, state)
		}
	}
	return t.out.Flush()
}

// Tables sends the blocks of tables that have changed. A switch without a table keeps
// its old one.
func (t *Teller) Tables(tables *lft.Tables) error {
	for i := range t.fabric.Nodes {
		j := tables.Find(t.fabric.Nodes[i].GUID)
		if j < 0 || t.fabric.Nodes[i].Kind != topology.Switch {
			continue
		}
		out := tables.Switches[j].Out
		last := t.tables[i]
		for from := 0; from < max(len(out), len(last)); from += lft.Block {
			is, was := block(out, from), block(last, from)
			if is != was {
				fmt.Fprintf(t.out, "table %d %d %s\n", i, from, hex.EncodeToString(is[:]))
			}
		}
		t.tables[i] = append(t.tables[i][:0], out...)
	}
	return t.out.Flush()
}

// Done asks the process to answer when it has handled all that.
func (t *Teller) Done() error {
	fmt.Fprintln(t.out, "done")
	return t.out.Flush()
}

// block is a part of a table, filled up with entries that lead nowhere.
func block(out []uint8, from int) (b [lft.Block]uint8) {
	for i := range b {
		b[i] = lft.NoPath
	}
	if from < len(out) {
		copy(b[:], out[from:])
	}
	return b
}

// Command follow reads the forwarding tables and the ports of all switches again and
// again, until its standard input ends, and prints the changes in the language of the
// data fabric, and "done" after each round. Its argument is the file with the fabric
// that the data fabric was started with; see adapter.Fabric.Follow.
package main

import (
	"context"
	"os"
	"time"

	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/client"
	"github.com/forsd/forsd/topology"
)

// pause is the time between two rounds, which leaves the simulator time for others.
const pause = 50 * time.Millisecond

func main() { client.Main(follow) }

func follow(ctx context.Context, r *umad.Reader, fabric *topology.Fabric, ended <-chan struct{}) error {
	f := follower{reader: r, fabric: fabric, teller: adapter.NewTeller(os.Stdout, fabric)}
	for {
		if err := f.round(ctx); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(pause):
		}
	}
}

type follower struct {
	reader *umad.Reader
	fabric *topology.Fabric // as last seen
	teller *adapter.Teller
}

// round reads all switches once. A switch that does not answer stays unchanged.
func (f *follower) round(ctx context.Context) error {
	local, number, _, err := f.reader.Self(ctx)
	if err != nil {
		return f.teller.Done() // the machine is busy; the next round has the changes
	}
	routes := umad.Routes(f.fabric, f.fabric.Find(local), number)
	for i := range f.fabric.Nodes {
		n := &f.fabric.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		ports, err := f.reader.Ports(ctx, umad.Node{GUID: n.GUID, LID: n.LID(), Route: routes[i]})
		if err != nil {
			continue
		}
		for p := 1; p < min(len(ports), len(n.Ports)); p++ {
			n.Ports[p].State = ports[p].State
			if peer := n.Ports[p].Peer; peer != topology.None && f.fabric.Nodes[peer].Kind != topology.Switch {
				f.fabric.Nodes[peer].Ports[n.Ports[p].PeerPort].State = ports[p].State
			}
		}
	}
	if err := f.teller.Links(f.fabric); err != nil {
		return err
	}
	if tables, _ := f.reader.Tables(ctx, f.fabric); tables != nil {
		if err := f.teller.Tables(tables); err != nil {
			return err
		}
	}
	return f.teller.Done()
}

package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// The links of a platform. The whole latency of a route is on the two links of hosts, so that
// it is the same for all routes: SimGrid gives a flow a share of a link in inverse proportion
// to the latency of its route. With 400 ns on each link, FT(2;6,6) with a dead cable has 0.920
// at once in place of 0.972.
const (
	bandwidth   = 25e9 // bytes a second, 200 Gb/s
	hostLatency = 400  // nanoseconds of a host's link
)

// writePlatform writes the fabric for SimGrid: a host for each rank, a link for each direction
// of a cable that a route has, and the route of each pair of ranks that the tables give to the
// LID of its row.
func writePlatform(to io.Writer, f *topology.Fabric, tables *lft.Tables, hosts []topology.EndPort, rows []sim.Row) error {
	rank := rankOf(hosts)
	w := bufio.NewWriter(to)
	fmt.Fprint(w, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n<zone id=\"fabric\" routing=\"Full\">\n")
	for i := range hosts {
		fmt.Fprintf(w, "<host id=\"h%d\" speed=\"1Gf\"/>\n", i)
	}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if !port.Up() {
				continue
			}
			latency := 0
			if f.Nodes[i].Kind != topology.Switch || f.Nodes[port.Peer].Kind != topology.Switch {
				latency = hostLatency
			}
			fmt.Fprintf(w, "<link id=\"l%d.%d\" bandwidth=\"%.0fBps\" latency=\"%dns\"/>\n", i, p, float64(bandwidth), latency)
		}
	}
	for i := range rows {
		r := &rows[i]
		src, dst := rank[r.Src], rank[r.Dst]
		hops, err := tables.Trace(f, hosts[src].PortRef, r.DLID)
		if err != nil {
			return fmt.Errorf("route from rank %d to rank %d: %w", src, dst, err)
		}
		if last := hops[len(hops)-1]; last.Node != hosts[dst].Node {
			return fmt.Errorf("LID %d leads from rank %d not to rank %d", r.DLID, src, dst)
		}
		fmt.Fprintf(w, "<route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\">", src, dst)
		for _, h := range hops[:len(hops)-1] {
			fmt.Fprintf(w, "<link_ctn id=\"l%d.%d\"/>", h.Node, h.Out)
		}
		fmt.Fprint(w, "</route>\n")
	}
	fmt.Fprint(w, "</zone>\n</platform>\n")
	return w.Flush()
}

// rankOf is the rank of each host, by port GUID.
func rankOf(hosts []topology.EndPort) map[ib.GUID]int {
	rank := make(map[ib.GUID]int, len(hosts))
	for i := range hosts {
		rank[hosts[i].GUID] = i
	}
	return rank
}

// writePlan writes the destination and the source of each phase, -1 for none, in a line for
// each rank.
func writePlan(to io.Writer, hosts []topology.EndPort, rows []sim.Row) error {
	phases := 0
	for i := range rows {
		phases = max(phases, int(rows[i].Phase)+1)
	}
	lines := make([][][2]int, len(hosts))
	for i := range lines {
		lines[i] = make([][2]int, phases)
		for p := range lines[i] {
			lines[i][p] = [2]int{-1, -1}
		}
	}
	rank := rankOf(hosts)
	for i := range rows {
		src, dst := rank[rows[i].Src], rank[rows[i].Dst]
		lines[src][rows[i].Phase][0], lines[dst][rows[i].Phase][1] = dst, src
	}
	w := bufio.NewWriter(to)
	for _, line := range lines {
		for _, x := range line {
			fmt.Fprintf(w, "%d %d ", x[0], x[1])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

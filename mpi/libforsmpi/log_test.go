package libforsmpi

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// line is a line of a rank's log.
type line struct {
	comm             uint64
	exchange         int
	epoch            uint64
	phase            int
	what             string
	src, dst         int // ranks of the communicator
	srcGUID, dstGUID ib.GUID
	lane             int
	dlid             ib.LID
	bytes            int
	time             int64 // ns
	step             int
}

// readLogs reads the logs of all ranks of MPI_COMM_WORLD.
func readLogs(t testing.TB, dir string, ranks int) [][]line {
	t.Helper()
	logs := make([][]line, ranks)
	for r := range logs {
		file, err := os.Open(filepath.Join(dir, fmt.Sprintf("rank-%d.csv", r)))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			logs[r] = append(logs[r], parse(t, row))
		}
	}
	return logs
}

func parse(t testing.TB, row []string) line {
	t.Helper()
	number := func(i, base int) int64 {
		v, err := strconv.ParseInt(row[i], base, 64)
		if err != nil {
			t.Fatalf("%v: %v", row, err)
		}
		return v
	}
	return line{uint64(number(0, 16)), int(number(1, 10)), uint64(number(2, 10)), int(number(3, 10)), row[4], int(number(5, 10)), int(number(6, 10)),
		ib.GUID(number(7, 0)), ib.GUID(number(8, 0)), int(number(9, 10)), ib.LID(number(10, 10)), int(number(11, 10)), number(12, 10), int(number(13, 10))}
}

// event is an exchange of a communicator.
type event struct {
	comm     uint64
	exchange int
}

// checkEpochs fails if a rank did not end an exchange that it began, or used
// another epoch in it than its peers. It returns the epochs, and the exchanges of
// each.
func checkEpochs(t testing.TB, logs [][]line) map[uint64][]event {
	t.Helper()
	epoch := map[event]uint64{}
	found := map[uint64][]event{}
	for r, log := range logs {
		open := map[event]bool{}
		for _, l := range log {
			e := event{l.comm, l.exchange}
			if have, ok := epoch[e]; !ok {
				epoch[e] = l.epoch
				found[l.epoch] = append(found[l.epoch], e)
			} else if have != l.epoch {
				t.Fatalf("exchange %d of communicator %x: rank %d is at epoch %d, another at %d", l.exchange, l.comm, r, l.epoch, have)
			}
			switch l.what {
			case "begin":
				open[e] = true
			case "end":
				delete(open, e)
			}
		}
		if len(open) > 0 {
			t.Fatalf("rank %d began exchanges that it did not end: %v", r, open)
		}
	}
	return found
}

// checkPairs fails if one rank sent other data than the other received, in the
// same phase of the same exchange, or if it was sent twice.
func checkPairs(t testing.TB, logs [][]line) {
	t.Helper()
	sent := map[line]int{}
	bare := func(l line) line {
		l.what, l.lane, l.dlid, l.time = "", 0, 0, 0
		return l
	}
	for _, log := range logs {
		for _, l := range log {
			switch l.what {
			case "send":
				sent[bare(l)]++
			case "receive":
				sent[bare(l)] -= 2
			}
		}
	}
	for l, n := range sent {
		if n != -1 {
			t.Fatalf("%+v was not sent once and received once", l)
		}
	}
}

// link is a directed link in a step of an exchange.
type link struct {
	event
	step int
	from topology.PortRef
}

// walker walks transfers through forwarding tables.
type walker struct {
	fabric *topology.Fabric
	tables *lft.Tables
	ports  map[ib.GUID]topology.PortRef // of adapters
}

func newWalker(f *topology.Fabric, tables *lft.Tables) *walker {
	w := &walker{f, tables, map[ib.GUID]topology.PortRef{}}
	for n := range f.Nodes {
		for p := range f.Nodes[n].Ports {
			if f.Nodes[n].Kind == topology.Adapter {
				w.ports[f.Nodes[n].Ports[p].GUID] = topology.PortRef{Node: int32(n), Port: uint8(p)}
			}
		}
	}
	return w
}

// links are the directed links that a transfer takes, by the ports at their beginnings.
// It must arrive.
func (w *walker) links(t testing.TB, l line) (links []topology.PortRef) {
	t.Helper()
	hops, err := w.tables.Trace(w.fabric, w.ports[l.srcGUID], l.dlid)
	if err != nil {
		t.Fatalf("%+v: %v", l, err)
	}
	last := len(hops) - 1
	if at := hops[last].Node; at != w.ports[l.dstGUID].Node {
		t.Fatalf("%+v arrives at %s", l, w.fabric.Nodes[at].Label())
	}
	for _, h := range hops[:last] {
		links = append(links, topology.PortRef{Node: h.Node, Port: h.Out})
	}
	return links
}

// checkLinks walks every transfer of the exchanges at an epoch through forwarding
// tables. It fails if one does not arrive, if transfers of two pairs of servers
// share a link in a step, or if a pair was not planned though the tables join it.
// It returns the number of transfers.
func checkLinks(t testing.TB, logs [][]line, epoch uint64, f *topology.Fabric, tables *lft.Tables) int {
	t.Helper()
	taken := map[link]line{}
	w := newWalker(f, tables)
	walked := 0
	for _, log := range logs {
		for _, l := range log {
			if l.what != "send" || l.epoch != epoch || l.srcGUID == l.dstGUID {
				continue
			}
			if l.phase < 0 {
				t.Fatalf("%+v: no phase", l)
			}
			for _, port := range w.links(t, l) {
				at := link{event{l.comm, l.exchange}, l.step, port}
				if other, ok := taken[at]; ok && (other.srcGUID != l.srcGUID || other.dstGUID != l.dstGUID) {
					t.Fatalf("port %d of %s carries two transfers:\n%+v\n%+v", port.Port, f.Nodes[port.Node].Label(), l, other)
				}
				taken[at] = l
			}
			walked++
		}
	}
	return walked
}

// checkOrder fails if a transfer begins before those of earlier steps on its links
// have ended: links are the links of a walk through forwarding tables. Servers that
// send both, or receive the one and send the other, ensure that by themselves. It uses
// only exchanges in which all pairs have data, since the log lacks empty blocks, and
// returns the number of transfers that wait for others.
func checkOrder(t testing.TB, logs [][]line, epoch uint64, f *topology.Fabric, tables *lft.Tables) (waits int) {
	t.Helper()
	type use struct {
		src, dst    ib.GUID
		begin, ends int64 // ends is 0 if the log has no end
	}
	type pair struct {
		event
		step     int
		src, dst ib.GUID
	}
	ended := map[pair]int64{}
	for _, log := range logs {
		for _, l := range log {
			if p := (pair{event{l.comm, l.exchange}, l.step, l.srcGUID, l.dstGUID}); l.what == "received" {
				ended[p] = max(ended[p], l.time)
			}
		}
	}
	w := newWalker(f, tables)
	pairs, servers := map[event]map[pair]bool{}, map[event]map[ib.GUID]bool{}
	uses := map[event]map[topology.PortRef]map[int]use{}
	for _, log := range logs {
		for _, l := range log {
			if l.what != "send" || l.epoch != epoch || l.srcGUID == l.dstGUID {
				continue
			}
			e := event{l.comm, l.exchange}
			if uses[e] == nil {
				uses[e], pairs[e], servers[e] = map[topology.PortRef]map[int]use{}, map[pair]bool{}, map[ib.GUID]bool{}
			}
			pairs[e][pair{src: l.srcGUID, dst: l.dstGUID}], servers[e][l.srcGUID] = true, true
			for _, port := range w.links(t, l) {
				if uses[e][port] == nil {
					uses[e][port] = map[int]use{}
				}
				u, had := uses[e][port][l.step]
				if !had || l.time < u.begin {
					u.begin = l.time
				}
				u.src, u.dst, u.ends = l.srcGUID, l.dstGUID, ended[pair{e, l.step, l.srcGUID, l.dstGUID}]
				uses[e][port][l.step] = u
			}
		}
	}
	for e, ports := range uses {
		if n := len(servers[e]); len(pairs[e]) < n*(n-1) {
			continue
		}
		for port, steps := range ports {
			order := slices.Sorted(maps.Keys(steps))
			for i := 1; i < len(order); i++ {
				was, is := steps[order[i-1]], steps[order[i]]
				if was.src == is.src || was.dst == is.src {
					continue
				}
				waits++
				if was.ends == 0 || is.begin < was.ends {
					t.Fatalf("exchange %d, port %d of %s: step %d begins %d ns before step %d has ended", e.exchange, port.Port, f.Nodes[port.Node].Label(), order[i],
						was.ends-is.begin, order[i-1])
				}
			}
		}
	}
	return waits
}

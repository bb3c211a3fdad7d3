// Package sim runs schedules over forwarding tables, phase by phase, and counts
// the transfers on every link: what a schedule and its routing cost when all
// servers start a phase together and a link is shared evenly. It works for any
// topology, for it only follows the tables.
package sim

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Row is one transfer of a schedule.
type Row struct {
	Phase    int32
	DLID     ib.LID
	Src, Dst ib.GUID // port GUIDs
}

// Result is what an exchange costs.
type Result struct {
	Servers   int `json:"servers"`   // P, those that send or receive
	Phases    int `json:"phases"`    // up to the last one with a transfer
	Transfers int `json:"transfers"` // of the schedule
	// Lost counts the transfers that do not arrive at their destination. They
	// load the links that they pass.
	Lost int `json:"lost"`
	// FirstLost says why the first lost transfer is lost.
	FirstLost string `json:"first_lost,omitempty"`
	// PerPhaseMax is, [phase], the largest number of transfers on a link, which is
	// the duration of the phase in units of an undisturbed transfer; 0 for a phase
	// without transfers.
	PerPhaseMax []int   `json:"per_phase_max"`
	Mean        float64 `json:"mean"` // of PerPhaseMax over the phases with transfers
	Max         int     `json:"max"`  // of PerPhaseMax
	// ConflictShare is the share of the phases with transfers in which some link
	// carries more than one.
	ConflictShare float64 `json:"conflict_share"`
	// RelativeThroughput is the most transfers of a server, P−1 in an exchange of all, over
	// Σ PerPhaseMax: 1 for an exchange that takes no longer than the servers' own cables
	// dictate. It means little when transfers are lost.
	RelativeThroughput float64 `json:"relative_throughput"`
	// Busiest is a link with the most transfers in a phase.
	Busiest *Link `json:"busiest,omitempty"`

	Most int `json:"-"` // transfers of a server
}

// Link is the load of one direction of a cable in a phase.
type Link struct {
	Phase     int    `json:"phase"`
	Cable     string `json:"cable"` // "Leaf000 port 21 – Spine003 port 1", in the direction of the traffic
	Transfers int    `json:"transfers"`
}

// Run simulates the rows, in any order, on fabric f with the given tables. It
// fails on a port GUID that f lacks and on a negative phase. A transfer that the
// tables lose is counted and does not fail the run.
func Run(f *topology.Fabric, tables *lft.Tables, rows []Row) (*Result, error) {
	r := newRunner(f, tables)
	transfers, phases, err := r.resolve(rows)
	if err != nil {
		return nil, err
	}
	r.result.PerPhaseMax = make([]int, phases)
	for phase := 0; len(transfers) > 0; phase++ {
		n := 0
		for n < len(transfers) && transfers[n].phase == int32(phase) {
			n++
		}
		r.addLoad(transfers[:n])
		r.measure(phase)
		r.unload()
		transfers = transfers[n:]
	}
	r.summarise()
	return &r.result, nil
}

// transfer is a row with its ports found.
type transfer struct {
	phase    int32
	src, dst int32 // indices into ends
	lid      ib.LID
}

// runner carries the work of Run. A link is a port of a switch or of an adapter,
// in the direction out of it; the links of a node are numbered together.
type runner struct {
	f      *topology.Fabric
	ends   []topology.EndPort
	at     map[ib.GUID]int32 // port GUID to index into ends
	memo   [1024]known       // answers of at, by a hash of the GUID
	first  []int32           // [node] number of the link at port 0
	target []target          // [link]
	out    [][]uint8         // [node] the table of a switch
	load   []int32           // [link] transfers of the phase
	used   []int32           // links with a load
	path   []int32           // the links of the phase's transfers, one transfer after the other
	seen   []bool            // [end] it sends or receives
	sent   []int             // [end] transfers
	result Result
}

// target is what a link leads to; node is None for a port that is down.
type target struct {
	node     int32
	port     uint8
	isSwitch bool
}

func newRunner(f *topology.Fabric, tables *lft.Tables) *runner {
	r := &runner{f: f, ends: f.EndPorts(), first: make([]int32, len(f.Nodes)), out: make([][]uint8, len(f.Nodes))}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		r.first[i] = int32(len(r.target))
		for p := range n.Ports {
			to := target{node: topology.None}
			if port := &n.Ports[p]; port.Up() {
				to = target{port.Peer, port.PeerPort, f.Nodes[port.Peer].Kind == topology.Switch}
			}
			r.target = append(r.target, to)
		}
		if s := tables.Find(n.GUID); s >= 0 && n.Kind == topology.Switch {
			r.out[i] = tables.Switches[s].Out
		}
	}
	r.load = make([]int32, len(r.target))
	r.seen, r.sent = make([]bool, len(r.ends)), make([]int, len(r.ends))
	r.at = make(map[ib.GUID]int32, len(r.ends))
	for i, e := range r.ends {
		if e.GUID != 0 {
			r.at[e.GUID] = int32(i)
		}
	}
	return r
}

// resolve finds the ports of the rows and sorts them by phase.
func (r *runner) resolve(rows []Row) (sorted []transfer, phases int, err error) {
	for i := range rows {
		if rows[i].Phase < 0 {
			return nil, 0, fmt.Errorf("simulate: row %d has phase %d: phases count from 0", i, rows[i].Phase)
		}
		phases = max(phases, int(rows[i].Phase)+1)
	}
	if phases > 1<<24 {
		return nil, 0, fmt.Errorf("simulate: phase %d is beyond any schedule", phases-1)
	}
	place := make([]int32, phases+1)
	for i := range rows {
		place[rows[i].Phase+1]++
	}
	for p := range phases {
		place[p+1] += place[p]
	}
	sorted = make([]transfer, len(rows))
	for i := range rows {
		row := &rows[i]
		src := r.find(row.Src)
		if src < 0 {
			return nil, 0, fmt.Errorf("simulate: row %d: no port of the fabric has GUID %s", i, row.Src)
		}
		dst := r.find(row.Dst)
		if dst < 0 {
			return nil, 0, fmt.Errorf("simulate: row %d: no port of the fabric has GUID %s", i, row.Dst)
		}
		sorted[place[row.Phase]] = transfer{row.Phase, src, dst, row.DLID}
		place[row.Phase]++
		r.count(src)
		r.count(dst)
		r.sent[src]++
		r.result.Most = max(r.result.Most, r.sent[src])
	}
	r.result.Transfers, r.result.Phases = len(rows), phases
	return sorted, phases, nil
}

// known is a port GUID with its index into ends.
type known struct {
	guid ib.GUID
	end  int32
}

// find is the index into ends of a port GUID, or −1.
func (r *runner) find(g ib.GUID) int32 {
	m := &r.memo[uint64(g)*0x9E3779B97F4A7C15>>54]
	if m.guid != g || g == 0 {
		end, ok := r.at[g]
		if !ok {
			return -1
		}
		*m = known{g, end}
	}
	return m.end
}

// count counts a server when it is seen for the first time.
func (r *runner) count(end int32) {
	if !r.seen[end] {
		r.seen[end] = true
		r.result.Servers++
	}
}

// addLoad loads the links with transfers.
func (r *runner) addLoad(transfers []transfer) {
	for i := range transfers {
		if !r.walk(&transfers[i]) {
			r.result.Lost++
			if r.result.FirstLost == "" {
				r.result.FirstLost = r.explain(&transfers[i])
			}
		}
	}
}

// measure finds the link with the largest load.
func (r *runner) measure(phase int) {
	most, link := int32(0), int32(0)
	for _, l := range r.used {
		if r.load[l] > most || r.load[l] == most && l < link {
			most, link = r.load[l], l
		}
	}
	r.result.PerPhaseMax[phase] = int(most)
	if int(most) > r.result.Max {
		r.result.Max = int(most)
		r.result.Busiest = &Link{phase, r.cable(link), int(most)}
	}
}

// unload makes the links free for the next phase.
func (r *runner) unload() {
	for _, l := range r.used {
		r.load[l] = 0
	}
	r.used, r.path = r.used[:0], r.path[:0]
}

// walk loads the links of one transfer and tells whether it arrives. A transfer
// from a port to itself loads none.
func (r *runner) walk(t *transfer) bool {
	src, dst := &r.ends[t.src], &r.ends[t.dst]
	if int(t.lid) < int(dst.LID) || int(t.lid) >= int(dst.LID)+1<<dst.LMC || dst.LID == 0 {
		return false
	}
	if t.src == t.dst {
		return true
	}
	link := r.first[src.Node] + int32(src.Port)
	for range r.f.Nodes { // a longer way is a loop
		to := r.target[link]
		if to.node == topology.None {
			return false
		}
		if r.load[link] == 0 {
			r.used = append(r.used, link)
		}
		r.load[link]++
		r.path = append(r.path, link)
		if !to.isSwitch {
			return to.node == dst.Node && to.port == dst.Port
		}
		out := lft.NoPath
		if table := r.out[to.node]; int(t.lid) < len(table) {
			out = table[t.lid]
		}
		if out == 0 {
			return to.node == dst.Node && dst.Port == 0
		}
		if out == lft.NoPath || int(out) >= len(r.f.Nodes[to.node].Ports) {
			return false
		}
		link = r.first[to.node] + int32(out)
	}
	return false
}

// explain says why a transfer is lost.
func (r *runner) explain(t *transfer) string {
	src, dst := &r.ends[t.src], &r.ends[t.dst]
	text := fmt.Sprintf("phase %d, %s to %s: ", t.phase, r.f.PortLabel(src.PortRef), r.f.PortLabel(dst.PortRef))
	if int(t.lid) < int(dst.LID) || int(t.lid) >= int(dst.LID)+1<<dst.LMC {
		return text + fmt.Sprintf("LID 0x%04x is not one of the destination's", t.lid)
	}
	tables := &lft.Tables{}
	for i := range r.out {
		if r.out[i] != nil {
			n := &r.f.Nodes[i]
			tables.Switches = append(tables.Switches, lft.Table{GUID: n.GUID, Name: n.Name, Out: r.out[i]})
		}
	}
	if _, err := tables.Trace(r.f, src.PortRef, t.lid); err != nil {
		return text + err.Error()
	}
	return text + "the way is too long"
}

// cable names a link by both its ends.
func (r *runner) cable(link int32) string {
	node := len(r.first) - 1
	for r.first[node] > link {
		node--
	}
	return r.f.CableLabel(topology.PortRef{Node: int32(node), Port: uint8(link - r.first[node])})
}

// Duration is what the exchange takes, in units of an undisturbed transfer.
func (r *Result) Duration() (sum int) {
	for _, m := range r.PerPhaseMax {
		sum += m
	}
	return sum
}

func (r *runner) summarise() {
	res := &r.result
	sum, busy, conflicts := res.Duration(), 0, 0
	for _, m := range res.PerPhaseMax {
		if m > 0 {
			busy++
		}
		if m > 1 {
			conflicts++
		}
	}
	if busy > 0 {
		res.Mean = float64(sum) / float64(busy)
		res.ConflictShare = float64(conflicts) / float64(busy)
		res.RelativeThroughput = float64(res.Most) / float64(sum)
	}
}

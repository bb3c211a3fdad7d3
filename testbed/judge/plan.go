package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Plan is a plan as published by forsd: the figures of plan.json, and the lines of
// phases.csv.
type Plan struct {
	Epoch       uint64 `json:"epoch"`
	Engine      string `json:"engine"`
	Phases      int    `json:"phases"`
	LowerBound  int    `json:"lower_bound"`
	Gap         int    `json:"gap"`
	Certificate string `json:"certificate"`
	Servers     int    `json:"servers"`
	Lanes       int    `json:"lanes"` // 0 if transfers have none
	Levels      int    `json:"levels"`
	Blocks      int    `json:"blocks"` // of Group phases each, if the plan consists of such
	Group       int    `json:"group"`
	Unreachable int    `json:"unreachable_pairs"`

	Base bool       `json:"-"` // for programs that send to base LIDs
	Rows []Transfer `json:"-"`
}

// Transfer is a line of phases.csv.
type Transfer struct {
	Phase      int
	Src, Dst   uint64 // GUIDs of ports
	Lane, DLID int
}

// ReadPlan reads plan.json and phases.csv.
func ReadPlan(figures, csv []byte) (*Plan, error) {
	p := &Plan{}
	if err := json.Unmarshal(figures, p); err != nil {
		return nil, fmt.Errorf("plan.json: %w", err)
	}
	var err error
	p.Rows, err = ReadCSV(csv)
	return p, err
}

// ReadCSV reads phases.csv.
func ReadCSV(csv []byte) (rows []Transfer, err error) {
	rows = make([]Transfer, 0, bytes.Count(csv, []byte("\n")))
	for n := 1; len(csv) > 0; n++ {
		line, rest, whole := bytes.Cut(csv, []byte("\n"))
		csv = rest
		if n == 1 && string(line) == "phase,src_guid,dst_guid,lane,dlid" {
			continue
		}
		t, ok := readTransfer(line)
		if n == 1 || !ok || !whole {
			return nil, fmt.Errorf("phases.csv line %d is not a transfer: %q", n, line)
		}
		rows = append(rows, t)
	}
	return rows, nil
}

// readTransfer reads a line such as "17,0x0002c90000000001,0x0002c90000000002,-1,5".
func readTransfer(line []byte) (t Transfer, ok bool) {
	bad := false
	next := func() (field []byte) {
		field, line, _ = bytes.Cut(line, []byte(","))
		return field
	}
	decimal := func(field []byte) (n int) {
		bad = bad || len(field) == 0 || len(field) > 9 || len(field) > 1 && field[0] == '0'
		for _, c := range field {
			bad = bad || c < '0' || c > '9'
			n = 10*n + int(c-'0')
		}
		return n
	}
	guid := func(field []byte) (n uint64) {
		if bad = bad || len(field) != 18 || field[0] != '0' || field[1] != 'x'; bad {
			return 0
		}
		for _, c := range field[2:] {
			bad = bad || nibble[c] == 255
			n = n<<4 | uint64(nibble[c])
		}
		return n
	}
	t.Phase, t.Src, t.Dst = decimal(next()), guid(next()), guid(next())
	if lane := next(); string(lane) == "-1" {
		t.Lane = -1
	} else {
		t.Lane = decimal(lane)
	}
	t.DLID = decimal(line)
	return t, !bad
}

// nibble is the value of a digit in lower case, 255 of another character.
var nibble = func() (of [256]uint8) {
	for c := range of {
		of[c] = 255
		if v := bytes.IndexByte([]byte("0123456789abcdef"), byte(c)); v >= 0 {
			of[c] = uint8(v)
		}
	}
	return of
}()

// examination is the state of the examination of a plan on tables.
type examination struct {
	*Fabric
	tables  [][]uint8 // [node][LID] the output port
	plan    *Plan
	unread  int
	index   map[uint64]int // [GUID of a server's port] its number
	servers []uint64
	ends    []end          // [server] its port
	met     []bool         // [source·servers + destination]
	lanes   map[[2]int]int // [lower switch, lane] the lower end of the lane's cable
	cables  []int          // [channel of that end] the lane and 1
	fit     []bool         // [channel] plans may use it
	rows    []Transfer     // by phase
	sent    []int          // [server] its last transfer, as a number in rows from 1
	carried []int          // [channel] the last transfer over it, likewise
	ways    [][][]int      // [switch][LID] the channels of the way; nil where it was not asked for
}

// Plan judges a plan among some servers, named by the GUIDs of their ports, on tables. In a
// phase a server sends to one other at most, and receives from one at most; a transfer goes
// to a LID of its destination, which the tables deliver, over cables between switches that
// are fast enough and not kept out of plans, and no other transfer of the phase takes one of
// them in the same direction; its lane names its cables. Every ordered pair occurs once, or
// has no way up and down. The figures are those of the transfers, and a bound is not above
// them, nor below what the cables of one leaf or one pod allow. It returns the channels that
// the plan uses.
func (f *Fabric) Plan(t Tables, servers []uint64, p *Plan) (used map[int]bool, err error) {
	x, err := f.examine(t, servers, p)
	if err != nil {
		return nil, err
	}
	return x.used(), x.figures(p)
}

// examine judges the transfers of a plan.
func (f *Fabric) examine(t Tables, servers []uint64, p *Plan) (*examination, error) {
	n, channels := len(servers), len(f.nodes)<<8
	x := &examination{Fabric: f, tables: t.byNode(f), plan: p, unread: f.unread(t), index: map[uint64]int{}, servers: servers, ends: make([]end, n), met: make([]bool, n*n),
		lanes: map[[2]int]int{}, cables: make([]int, channels), fit: make([]bool, channels), rows: p.Rows, sent: make([]int, n), carried: make([]int, channels), ways: make([][][]int, len(f.nodes))}
	for i, s := range servers {
		at, ok := f.ports[s]
		if !ok {
			return nil, fmt.Errorf("server %016x was not discovered", s)
		}
		x.index[s], x.ends[i] = i, at
	}
	for i := range f.nodes {
		for p := range f.nodes[i].ports {
			x.fit[end{i, p}.channel()] = f.usable(end{i, p})
		}
	}
	phases := func(a, b Transfer) int { return a.Phase - b.Phase }
	if !slices.IsSortedFunc(x.rows, phases) {
		x.rows = slices.Clone(x.rows)
		slices.SortStableFunc(x.rows, phases)
	}
	for i := range x.rows {
		if err := x.transfer(i + 1); err != nil {
			r := &x.rows[i]
			return nil, fmt.Errorf("phase %d, %s to %s by LID %d: %w", r.Phase, x.name(r.Src), x.name(r.Dst), r.DLID, err)
		}
	}
	return x, nil
}

// used are the channels between switches that the plan uses.
func (x *examination) used() map[int]bool {
	used := map[int]bool{}
	for c, row := range x.carried {
		if row > 0 && x.between(ofChannel(c)) {
			used[c] = true
		}
	}
	return used
}

// figures judges the figures of a plan with the transfers examined. If it is for programs that
// send to base LIDs, all transfers go to such.
func (x *examination) figures(p *Plan) error {
	x.plan = p
	last := -1
	if len(x.rows) > 0 {
		last = x.rows[len(x.rows)-1].Phase
	}
	left, err := x.missing()
	if err != nil {
		return err
	}
	for i := range x.rows {
		if r := &x.rows[i]; p.Base && r.DLID != x.at(x.ends[x.index[r.Dst]]).lid {
			return fmt.Errorf("phase %d, %s to %s: LID %d is not the base LID", r.Phase, x.name(r.Src), x.name(r.Dst), r.DLID)
		}
	}
	switch {
	case p.Phases != last+1 && (p.Phases != p.Blocks*p.Group || p.Phases-(last+1) >= p.Group): // a block may end in phases in which nothing is sent
		return fmt.Errorf("the plan is said to have %d phases, and has transfers in %d", p.Phases, last+1)
	case p.Servers != len(x.servers):
		return fmt.Errorf("the plan is said to have %d servers, and should have %d", p.Servers, len(x.servers))
	case p.Unreachable != len(left):
		return fmt.Errorf("the plan is said to leave out %d pairs, and leaves out %d", p.Unreachable, len(left))
	case p.Gap != p.Phases-p.LowerBound || p.Gap < 0:
		return fmt.Errorf("the plan is said to have %d phases, a bound of %d and a gap of %d", p.Phases, p.LowerBound, p.Gap)
	}
	return x.bound(left)
}

// transfer judges one transfer, by its number in rows from 1.
func (x *examination) transfer(row int) error {
	r := &x.rows[row-1]
	s, ok := x.index[r.Src]
	d, ok2 := x.index[r.Dst]
	if !ok || !ok2 || s == d {
		return fmt.Errorf("these are not two servers of the exchange")
	}
	pair := s*len(x.servers) + d
	if x.met[pair] {
		return fmt.Errorf("the pair occurs again")
	}
	x.met[pair] = true
	here, there := x.ends[s], x.ends[d]
	if err := x.take(row, &x.sent[s], "sends"); err != nil {
		return err
	}
	if err := x.take(row, &x.carried[there.channel()], "receives"); err != nil {
		return err
	}
	first := x.at(there).lid
	if r.DLID < first || r.DLID >= first+1<<x.at(there).lmc || x.plan.Base && r.DLID != first {
		return fmt.Errorf("the LID is not the destination's: it has %d, and %d in all", first, 1<<x.at(there).lmc)
	}
	local := x.home(here) == x.home(there)
	switch {
	case x.plan.Lanes == 0 && r.Lane != -1, x.plan.Lanes > 0 && local != (r.Lane == -1):
		return fmt.Errorf("lane %d, of %d", r.Lane, x.plan.Lanes)
	case x.plan.Lanes > 0 && local && r.DLID != first:
		return fmt.Errorf("both are at one leaf, and the LID is not the base LID %d", first)
	case r.DLID == x.unread:
		return nil
	}
	way, err := x.way(x.home(here), r.DLID)
	if err != nil {
		return err
	}
	if x.plan.Lanes > 0 && local && len(way) > 0 {
		return fmt.Errorf("both are at one leaf, and the way leads over %s", x.label(way[0]))
	}
	for _, c := range way {
		if !x.fit[c] {
			return fmt.Errorf("the way leads over %s, which is slow, or kept out of plans", x.label(c))
		}
		if err := x.take(row, &x.carried[c], "a cable on the way carries"); err != nil {
			return err
		}
	}
	if x.plan.Lanes > 0 && !local {
		return x.lane(r.Lane, way)
	}
	return nil
}

// take makes a transfer take a channel, or an end at a server, which last holds the last one of.
func (x *examination) take(row int, last *int, does string) error {
	if *last > 0 && x.rows[*last-1].Phase == x.rows[row-1].Phase {
		other := &x.rows[*last-1]
		return fmt.Errorf("%s another transfer in this phase, %s to %s", does, x.name(other.Src), x.name(other.Dst))
	}
	*last = row
	return nil
}

// way is the channels between switches on which a LID comes from a switch to its owner. It is
// found once.
func (x *examination) way(from, lid int) (way []int, err error) {
	if x.ways[from] == nil {
		x.ways[from] = make([][]int, len(x.owner))
	}
	if way := x.ways[from][lid]; way != nil {
		return way, nil
	}
	way = []int{}
	for at := from; ; {
		c, to, err := x.hop(x.tables, at, lid)
		switch {
		case err != nil:
			return nil, err
		case to == x.owner[lid]:
			x.ways[from][lid] = way
			return way, nil
		case len(way) == len(x.nodes):
			return nil, fmt.Errorf("the way goes round in a circle over %s", x.label(way[len(way)-1]))
		}
		way, at = append(way, c), to.node
	}
}

// lane checks that a lane is the cable by which a way leaves the switch below its highest one:
// the same for all transfers of the lane that leave there, and for no other lane. A way may
// come down by another cable of the same two switches.
func (x *examination) lane(lane int, way []int) error {
	if len(way)%2 != 0 {
		return fmt.Errorf("the way has %d cables between switches, and does not go up and down", len(way))
	}
	lower := way[len(way)/2-1]
	k := x.cables[lower] - 1
	if k == lane {
		return nil
	}
	at := [2]int{ofChannel(lower).node, lane}
	if c, ok := x.lanes[at]; ok && c != lower {
		return fmt.Errorf("lane %d is the cable at %s, and the way leads over that at %s", lane, x.label(c), x.label(lower))
	}
	if k >= 0 {
		return fmt.Errorf("the cable at %s is that of lane %d, and of lane %d", x.label(lower), k, lane)
	}
	x.lanes[at], x.cables[lower] = lower, lane+1
	return nil
}

// missing is the pairs that do not occur. Each must be without a way, where switches that
// several cables join count as joined only if all these can be used: a lane is one of them,
// and a lane that is dead at either end is of no use.
func (x *examination) missing() (left [][2]int, err error) {
	reach := map[int][]bool{}
	for s := range x.servers {
		for d := range x.servers {
			if s == d || x.met[s*len(x.servers)+d] {
				continue
			}
			from, to := x.home(x.ports[x.servers[s]]), x.home(x.ports[x.servers[d]])
			if reach[to] == nil {
				reach[to] = x.upDown(to, x.whole)
			}
			if reach[to][from] {
				return nil, fmt.Errorf("%s sends nothing to %s, and there is a way", x.name(x.servers[s]), x.name(x.servers[d]))
			}
			left = append(left, [2]int{s, d})
		}
	}
	return left, nil
}

// bound judges the reported bound of a plan. The servers of a leaf, or of a pod, send all data
// for others over the cables that lead out of it.
func (x *examination) bound(left [][2]int) error {
	n := len(x.servers)
	peers := slices.Repeat([]int{n - 1}, n)
	for _, pair := range left {
		peers[pair[0]]--
	}
	least := 0
	if n > 0 {
		least = slices.Max(peers)
	}
	if x.plan.Certificate == "servers" && x.plan.LowerBound != least {
		return fmt.Errorf("the bound is %d by the servers, and they send to %d others", x.plan.LowerBound, least)
	}
	for _, below := range []int{1, 2} {
		part := x.parts(x.rank, below)
		inside, demand, room := map[int]int{}, map[int]int{}, map[int]int{}
		for _, s := range x.servers {
			inside[part[x.home(x.ports[s])]]++
		}
		for p, k := range inside {
			demand[p] = k * (n - k)
		}
		for _, pair := range left {
			if p := part[x.home(x.ports[x.servers[pair[0]]])]; p != part[x.home(x.ports[x.servers[pair[1]]])] {
				demand[p]--
			}
		}
		for i := range x.nodes {
			for p := range x.nodes[i].ports {
				if at := (end{i, p}); x.usable(at) && part[i] != part[x.at(at).peer] {
					room[part[i]]++
				}
			}
		}
		for p, d := range demand {
			if d > 0 && room[p] > 0 {
				least = max(least, int(math.Ceil(float64(d)/float64(room[p]))))
			}
		}
	}
	if x.plan.LowerBound < least {
		return fmt.Errorf("the bound is %d by %q, and no plan has fewer than %d phases", x.plan.LowerBound, x.plan.Certificate, least)
	}
	return nil
}

// parts numbers the parts that the switches of levels below a level hang together in: leaves
// below level 1, and pods below level 2. Other switches are each a part of their own.
func (f *Fabric) parts(rank []int, below int) []int {
	part := make([]int, len(f.nodes))
	for i := range part {
		part[i] = -1
	}
	for i := range f.nodes {
		if part[i] >= 0 {
			continue
		}
		part[i] = i
		for queue := []int{i}; len(queue) > 0 && rank[i] < below; queue = queue[1:] {
			for _, p := range f.nodes[queue[0]].ports {
				if p.peer >= 0 && rank[p.peer] < below && part[p.peer] < 0 {
					part[p.peer] = i
					queue = append(queue, p.peer)
				}
			}
		}
	}
	return part
}

// name is that of a server.
func (f *Fabric) name(guid uint64) string {
	if at, ok := f.ports[guid]; ok {
		return f.label(at.channel())
	}
	return fmt.Sprintf("%016x", guid)
}

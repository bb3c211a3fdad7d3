package judge

import (
	"bufio"
	"bytes"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
)

// Tables are the forwarding tables of switches: the output port for each LID, noEntry
// without one.
type Tables map[uint64][]uint8 // [GUID of the switch][LID]

const noEntry = 255

var (
	headLine  = regexp.MustCompile(`^Unicast lids .* guid 0x([0-9a-fA-F]+)`)
	entryLine = regexp.MustCompile(`^0x([0-9a-fA-F]{1,4})\s+(\d{1,3})\b`)
)

// ReadTables reads the output of dump_fts, OpenSM's opensm-lfts.dump, or a file of that form.
func ReadTables(dump []byte) (Tables, error) {
	t := Tables{}
	var row []uint8
	lines := bufio.NewScanner(bytes.NewReader(dump))
	for n := 1; lines.Scan(); n++ {
		if !bytes.HasPrefix(lines.Bytes(), []byte("0x")) {
			m := headLine.FindSubmatch(lines.Bytes())
			if m == nil {
				continue
			}
			guid := hex(string(m[1]))
			if t[guid] != nil {
				return nil, fmt.Errorf("tables line %d: switch %016x is there twice", n, guid)
			}
			row = bytes.Repeat([]byte{noEntry}, 1<<16)
			t[guid] = row
		} else if lid, port, ok := entry(lines.Bytes()); ok {
			if row == nil || port > noEntry {
				return nil, fmt.Errorf("tables line %d: %s", n, lines.Text())
			}
			row[lid] = uint8(port)
		}
	}
	return t, lines.Err()
}

// entry reads a line such as "0x0004 011 : (Switch portguid …)", as dump_fts writes it; with -n
// the port is the last. Lines of another form are left to entryLine.
func entry(line []byte) (lid, port int, ok bool) {
	if len(line) == 10 || len(line) > 10 && line[10] == ' ' {
		if v, err := strconv.ParseUint(string(line[2:6]), 16, 16); err == nil && line[6] == ' ' {
			if w, err := strconv.ParseUint(string(line[7:10]), 10, 16); err == nil {
				return int(v), int(w), true
			}
		}
	}
	m := entryLine.FindSubmatch(line)
	if m == nil {
		return 0, 0, false
	}
	return int(hex(string(m[1]))), number(string(m[2])), true
}

// byNode returns the tables by node; those of nodes without one are nil.
func (t Tables) byNode(f *Fabric) [][]uint8 {
	rows := make([][]uint8, len(f.nodes))
	for i := range f.nodes {
		rows[i] = t[f.nodes[i].guid]
	}
	return rows
}

// unread is the LID whose entries dump_fts cannot read: the largest one, if it begins a
// block of 64, and no switch shows an entry for it; otherwise 0.
func (f *Fabric) unread(t Tables) int {
	last := 0
	for lid, o := range f.owner {
		if o.node >= 0 {
			last = lid
		}
	}
	for _, row := range t {
		if row[last] != noEntry {
			return 0
		}
	}
	if last%64 != 0 {
		return 0
	}
	return last
}

// Tables judges forwarding tables. Every switch has one; an entry for a LID in use leads
// over cables that are there to the port that answers to it, and never round in a circle;
// a switch from which a way leads up and then down to the LID has an entry for it; and
// the cables of all ways depend on each other in no circle, so that no packets can wait for
// each other for ever.
func (f *Fabric) Tables(t Tables) error {
	for guid := range t {
		if i, ok := f.index[guid]; !ok || f.nodes[i].kind != 'S' {
			return fmt.Errorf("there is a table of switch %016x, which was not discovered", guid)
		}
	}
	unread, rows := f.unread(t), t.byNode(f)
	waits := map[int]*[4]uint64{} // [channel] the ports of the next switch that follow it
	must := map[int][]bool{}      // [switch that an owner is at]
	for i := range f.nodes {
		if f.nodes[i].kind == 'S' && t[f.nodes[i].guid] == nil {
			return fmt.Errorf("switch %s has no table", f.nodes[i].name)
		}
	}
	for lid, o := range f.owner {
		if o.node < 0 || lid == unread || f.home(o) < 0 {
			continue
		}
		if must[f.home(o)] == nil {
			must[f.home(o)] = f.upDown(f.home(o), f.between)
		}
		if err := f.delivered(rows, lid, must[f.home(o)], waits); err != nil {
			return err
		}
	}
	return f.acyclic(waits)
}

// home is the switch of an end port, −1 without one.
func (f *Fabric) home(o end) int {
	if f.nodes[o.node].kind == 'S' {
		return o.node
	}
	if p := f.at(o); p.peer >= 0 && f.nodes[p.peer].kind == 'S' {
		return p.peer
	}
	return -1
}

// delivered checks the entries for a LID, and records which channels follow each other. A
// right entry leads to a right one; circles are found with all others.
func (f *Fabric) delivered(rows [][]uint8, lid int, must []bool, waits map[int]*[4]uint64) error {
	for i := range f.nodes {
		if f.nodes[i].kind != 'S' {
			continue
		}
		if rows[i][lid] == noEntry {
			if must[i] {
				return fmt.Errorf("switch %s has no entry for LID %d of %s", f.nodes[i].name, lid, f.label(f.owner[lid].channel()))
			}
			continue
		}
		c, to, err := f.hop(rows, i, lid)
		if err != nil {
			return err
		}
		if to == f.owner[lid] {
			continue
		}
		next, _, err := f.hop(rows, to.node, lid)
		if err != nil {
			return err
		}
		if waits[c] == nil {
			waits[c] = new([4]uint64)
		}
		waits[c][next>>6&3] |= 1 << (next & 63)
	}
	return nil
}

// hop is the channel by which a switch forwards a LID, and the end of its cable. An end at
// a switch is its port 0 if the LID is the switch's own.
func (f *Fabric) hop(rows [][]uint8, at, lid int) (channel int, to end, err error) {
	out := int(rows[at][lid])
	channel = end{at, out & 255}.channel()
	switch {
	case out == noEntry:
		return channel, to, fmt.Errorf("LID %d comes to switch %s, which has no entry for it", lid, f.nodes[at].name)
	case out == 0:
		to = end{at, 0}
	case out >= len(f.nodes[at].ports) || f.nodes[at].ports[out].peer < 0:
		return channel, to, fmt.Errorf("%s leads LID %d to a port without a cable", f.label(channel), lid)
	default:
		to = f.far(end{at, out})
	}
	if to == f.owner[lid] {
		return channel, to, nil
	}
	if out == 0 || f.nodes[to.node].kind != 'S' {
		return channel, to, fmt.Errorf("%s delivers LID %d to %s, and it is that of %s", f.label(channel), lid, f.label(to.channel()), f.label(f.owner[lid].channel()))
	}
	return channel, to, nil
}

// upDown finds from which nodes a way leads up and then down to a switch, over such cables.
func (f *Fabric) upDown(home int, over func(at end) bool) []bool {
	reach := make([]bool, len(f.nodes))
	reach[home] = true
	spread := func(seeds []int, next func(from, to int) bool) (all []int) {
		for all = seeds; len(seeds) > 0; seeds = seeds[1:] {
			for i, p := range f.nodes[seeds[0]].ports {
				if over(end{seeds[0], i}) && !reach[p.peer] && next(f.rank[seeds[0]], f.rank[p.peer]) {
					reach[p.peer] = true
					seeds, all = append(seeds, p.peer), append(all, p.peer)
				}
			}
		}
		return all
	}
	down := spread([]int{home}, func(from, to int) bool { return to > from && to < len(f.nodes) })
	spread(down, func(from, to int) bool { return to < from })
	return reach
}

// acyclic looks for a circle of channels that wait for each other.
func (f *Fabric) acyclic(waits map[int]*[4]uint64) error {
	state := map[int]int{} // 1 while on the path, 2 when done
	var visit func(c int) error
	visit = func(c int) error {
		state[c] = 1
		if set := waits[c]; set != nil {
			next := f.at(ofChannel(c)).peer
			for w, word := range set {
				for ; word != 0; word &= word - 1 {
					d := end{next, w<<6 + bits.TrailingZeros64(word)}.channel()
					if state[d] == 1 {
						return fmt.Errorf("packets may wait for each other for ever: %s and %s are in a circle of channels", f.label(c), f.label(d))
					}
					if state[d] == 0 {
						if err := visit(d); err != nil {
							return err
						}
					}
				}
			}
		}
		state[c] = 2
		return nil
	}
	for i := range f.nodes {
		for p := range f.nodes[i].ports {
			if c := (end{i, p}).channel(); state[c] == 0 && waits[c] != nil {
				if err := visit(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

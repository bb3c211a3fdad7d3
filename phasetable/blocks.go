package phasetable

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/forsd/forsd/ib"
)

// Version 2 of the format holds plans by a rule, for fabrics whose rows would take
// gigabytes: in blocks of phases, or as a linear shift. A reader works an entry out.

// VersionRules is the version of tables that hold a rule.
const VersionRules = 2

// Blocks is a plan in blocks of Group phases. Servers in a row form a group, of up to Group
// members, which are on one leaf. A group has Group slots, and in each block a destination
// in each of them: member i sends to that of slot (i+t) mod Group in phase t of the block,
// and does nothing where that is itself.
type Blocks struct {
	Group  int
	Blocks int
	Groups []Members // the slots of the k-th are k·Group and the following
	// To, Lane and DLID are like those of Table, indexed [block·slots + slot].
	To   []int32
	Lane []int16
	DLID []ib.LID
}

// Members are servers in a row.
type Members struct{ First, Count int }

// Shift is the linear shift over places: in phase p a server sends to the one on the place
// p+1 after its own, in turn, by base LID.
type Shift struct {
	Places int
	At     []Place // [server]
}

// Place is where a server is in the shift, and how it is sent to.
type Place struct {
	Place uint32
	Pod   uint32
	Lane  int16 // of traffic from another pod
	Inner int16 // of traffic from another leaf of its pod
}

// Header fields of version 2, after eight sections.
const (
	offForm   = 224
	offGroup  = 228
	offBlocks = 232
	offGroups = 236 // of a shift: places

	headerSizeRules = 256
	sectionsRules   = 8

	formBlocks = 1
	formShift  = 2
)

// The sections of version 2 that follow the names. A shift has two: a place for each
// server, and the server on each place.
const (
	secUnits    = 4 + iota // [slot·blocks + block]
	secReceived            // [server·blocks + block] slot
	secGroups
	secGroupOf // [server]

	secPlaces  = secUnits
	secOnPlace = secReceived
)

const (
	unitSize  = 6 // send_to, dlid, lane
	groupSize = 8 // first, count
	placeSize = 12
	noneOf    = 0xFFFF_FFFF // no slot, no server
)

// rules is the part of a View that version 2 has.
type rules struct {
	view                               *View
	form, group, blocks, groups        int // groups: places of a shift
	units, received, members, groupsOf []byte
}

// lengths returns those of the sections after the names, given the numbers of the header.
func (r *rules) lengths(servers uint64) [4]uint64 {
	g, b, k := uint64(r.group), uint64(r.blocks), uint64(r.groups)
	if r.form == formShift {
		return [4]uint64{servers * placeSize, k * 4, 0, 0}
	}
	return [4]uint64{k * g * b * unitSize, servers * b * 4, k * groupSize, servers * 4}
}

// count returns how many phases the rule has.
func (r *rules) count() int {
	if r.form == formShift {
		return max(0, r.groups-1)
	}
	return r.group * r.blocks
}

// entryAt computes what a server does in a phase.
func (r *rules) entryAt(s, p int) uint64 {
	if r.form == formShift {
		place := int(le.Uint32(r.units[s*placeSize:]))
		e := uint64(idleEntry)
		if to := r.onPlace((place + p + 1) % r.groups); to != noneOf {
			e = e&(nobody<<shiftRecv) | uint64(to) | uint64(r.view.lid(int(to)))<<shiftDLID | uint64(uint16(r.shiftLane(s, int(to))))<<shiftLane
		}
		if from := r.onPlace((place - p - 1 + r.groups) % r.groups); from != noneOf {
			e = e&^(nobody<<shiftRecv) | uint64(from)<<shiftRecv
		}
		return e
	}
	block, t := p/r.group, p%r.group
	k := int(le.Uint32(r.groupsOf[4*s:]))
	i := s - int(le.Uint32(r.members[k*groupSize:]))
	e := uint64(idleEntry)
	unit := r.units[((k*r.group+(i+t)%r.group)*r.blocks+block)*unitSize:]
	if to := le.Uint16(unit); to != nobody && int(to) != s {
		e = nobody<<shiftRecv | uint64(to) | uint64(le.Uint16(unit[2:]))<<shiftDLID | uint64(le.Uint16(unit[4:]))<<shiftLane
	}
	if slot := le.Uint32(r.received[4*(s*r.blocks+block):]); slot != noneOf {
		from := int(slot) / r.group
		i := (int(slot)%r.group - t + r.group) % r.group
		if n := int(le.Uint32(r.members[from*groupSize:])) + i; i < int(le.Uint32(r.members[from*groupSize+4:])) && n != s {
			e = e&^(nobody<<shiftRecv) | uint64(n)<<shiftRecv
		}
	}
	return e
}

func (r *rules) onPlace(place int) uint32 { return le.Uint32(r.received[4*place:]) }

// shiftLane returns the lane of a transfer of a shift.
func (r *rules) shiftLane(s, d int) int16 {
	a, b := r.units[s*placeSize:], r.units[d*placeSize:]
	switch {
	case r.view.leaf(s) == r.view.leaf(d) || r.view.lanes == 0:
		return Local
	case le.Uint32(a[4:]) == le.Uint32(b[4:]):
		return int16(le.Uint16(b[10:]))
	}
	return int16(le.Uint16(b[8:]))
}

// encodeRules prints a table that holds a rule.
func encodeRules(t *Table, hash [hashSize]byte) ([]byte, error) {
	r := &rules{form: formBlocks}
	if t.Shift != nil {
		r.form, r.groups = formShift, t.Shift.Places
	} else {
		r.group, r.blocks, r.groups = t.Blocks.Group, t.Blocks.Blocks, len(t.Blocks.Groups)
	}
	if err := t.checkRules(r); err != nil {
		return nil, err
	}
	d, err := newDirectory(t.Servers)
	if err != nil {
		return nil, err
	}
	n := uint64(len(t.Servers))
	more := r.lengths(n)
	out, at := d.layOut(headerSizeRules, more[:])
	putHeader(out, t, hash, d.lmc, VersionRules, headerSizeRules)
	le.PutUint32(out[offPhases:], uint32(r.count()))
	for i, x := range []int{r.form, r.group, r.blocks, r.groups} {
		le.PutUint32(out[offForm+4*i:], uint32(x))
	}
	if r.form == formShift {
		putPlaces(out[at[secPlaces]:], out[at[secOnPlace]:], t.Shift)
	} else {
		putBlocks(out, at, t.Blocks, len(t.Servers))
	}
	le.PutUint32(out[offCRC:], checksum(out))
	v, err := open(out)
	if err == nil {
		err = v.rules.check()
	}
	return out, err
}

// checkRules checks the shape of a rule; its servers are checked on the encoded form.
func (t *Table) checkRules(r *rules) error {
	switch b := t.Blocks; {
	case t.Blocks != nil && t.Shift != nil || len(t.To) > 0:
		return errors.New("a table has rows, blocks or a shift, one of the three")
	case r.form == formShift && len(t.Shift.At) != len(t.Servers):
		return fmt.Errorf("%d places for %d servers", len(t.Shift.At), len(t.Servers))
	case b != nil && (r.group < 1 || r.blocks < 0 || len(b.To) != r.group*r.blocks*r.groups || len(b.Lane) != len(b.To) || len(b.DLID) != len(b.To)):
		return fmt.Errorf("%d destinations, %d lanes and %d LIDs: want %d blocks × %d groups of %d", len(b.To), len(b.Lane), len(b.DLID), r.blocks, r.groups, r.group)
	case r.count() > maxPhases:
		return fmt.Errorf("%d phases: want 0 to %d", r.count(), int64(maxPhases))
	}
	return nil
}

func putPlaces(places, onPlace []byte, s *Shift) {
	for i := range s.Places {
		le.PutUint32(onPlace[4*i:], noneOf)
	}
	for i, p := range s.At {
		at := places[i*placeSize:]
		le.PutUint32(at, p.Place)
		le.PutUint32(at[4:], p.Pod)
		le.PutUint16(at[8:], uint16(p.Lane))
		le.PutUint16(at[10:], uint16(p.Inner))
		if int64(p.Place) < int64(s.Places) {
			le.PutUint32(onPlace[4*p.Place:], uint32(i))
		}
	}
}

func putBlocks(out []byte, at []uint64, b *Blocks, servers int) {
	slots := b.Group * len(b.Groups)
	received := out[at[secReceived]:][:4*servers*b.Blocks]
	for i := 0; i < len(received); i += 4 {
		le.PutUint32(received[i:], noneOf)
	}
	units := out[at[secUnits]:]
	for block := range b.Blocks {
		for slot := range slots {
			i := block*slots + slot
			unit := units[(slot*b.Blocks+block)*unitSize:]
			if b.To[i] < 0 || int(b.To[i]) >= servers {
				le.PutUint16(unit, nobody)
				le.PutUint16(unit[4:], nobody)
				continue
			}
			le.PutUint16(unit, uint16(b.To[i]))
			le.PutUint16(unit[2:], uint16(b.DLID[i]))
			le.PutUint16(unit[4:], uint16(b.Lane[i]))
			le.PutUint32(received[4*(int(b.To[i])*b.Blocks+block):], uint32(slot))
		}
	}
	for k, m := range b.Groups {
		le.PutUint32(out[at[secGroups]+uint64(k)*groupSize:], uint32(m.First))
		le.PutUint32(out[at[secGroups]+uint64(k)*groupSize+4:], uint32(m.Count))
		for s := m.First; s < min(m.First+m.Count, servers); s++ {
			binary.LittleEndian.PutUint32(out[at[secGroupOf]+uint64(4*s):], uint32(k))
		}
	}
}

// readRules reads the rule's part of a header.
func readRules(v *View) error {
	field := func(off int) int { return int(le.Uint32(v.data[off:])) }
	r := &rules{view: v, form: field(offForm), group: field(offGroup), blocks: field(offBlocks), groups: field(offGroups)}
	const most = 1 << 24 // of each: their products fit 64 bits
	switch {
	case r.form != formBlocks && r.form != formShift:
		return fmt.Errorf("form %d: this reader knows %d, blocks, and %d, shift", r.form, formBlocks, formShift)
	case r.group > most || r.blocks > most || r.groups > most || r.form == formBlocks && r.group < 1:
		return fmt.Errorf("%d blocks of %d phases for %d groups", r.blocks, r.group, r.groups)
	case v.phases != r.count():
		return fmt.Errorf("%d phases: %d blocks of %d phases, or %d places, have %d", v.phases, r.blocks, r.group, r.groups, r.count())
	}
	v.rules = r
	return nil
}

// check checks that every entry of a rule would be valid in a table of rows.
func (r *rules) check() error {
	if r.form == formShift {
		return r.checkShift()
	}
	if err := r.checkGroups(); err != nil {
		return err
	}
	peers := r.view.peers()
	for block := range r.blocks {
		sent := 0
		for slot := range r.group * r.groups {
			unit := r.units[(slot*r.blocks+block)*unitSize:]
			d := int(le.Uint16(unit))
			if d == nobody {
				if le.Uint16(unit[2:]) != 0 || le.Uint16(unit[4:]) != nobody {
					return fmt.Errorf("block %d: slot %d has no destination, yet has LID %d and lane %d", block, slot, le.Uint16(unit[2:]), int16(le.Uint16(unit[4:])))
				}
				continue
			}
			if d >= r.view.servers {
				return fmt.Errorf("block %d: slot %d leads to server %d: there are %d", block, slot, d, r.view.servers)
			}
			if back := le.Uint32(r.received[4*(d*r.blocks+block):]); int64(back) != int64(slot) {
				return fmt.Errorf("block %d: slot %d leads to server %d, which receives from slot %d", block, slot, d, int32(back))
			}
			sent++
			first, count := r.membersOf(slot / r.group)
			lane, lid := int16(le.Uint16(unit[4:])), le.Uint16(unit[2:])
			if count > 0 && !fits(peers[first], peers[d], lane, lid, r.view.lanes) {
				return misfit(block*r.group, first, d, peers[first], peers[d], lane, lid, r.view.lanes)
			}
		}
		for s := range r.view.servers {
			if le.Uint32(r.received[4*(s*r.blocks+block):]) != noneOf {
				sent--
			}
		}
		if sent != 0 {
			return fmt.Errorf("block %d: %d more servers receive than are sent to", block, -sent)
		}
	}
	return nil
}

// membersOf returns the servers of a group.
func (r *rules) membersOf(k int) (first, count int) {
	at := r.members[k*groupSize:]
	return int(le.Uint32(at)), int(le.Uint32(at[4:]))
}

// checkGroups checks that every server is in one group, on one leaf with the others.
func (r *rules) checkGroups() error {
	next := 0
	for k := range r.groups {
		first, count := r.membersOf(k)
		if count > 0 && first != next || count > r.group || first+count > r.view.servers {
			return fmt.Errorf("group %d has %d members from server %d on: want at most %d from %d on", k, count, first, r.group, next)
		}
		for s := first; s < first+count; s++ {
			if int(le.Uint32(r.groupsOf[4*s:])) != k || r.view.leaf(s) != r.view.leaf(first) {
				return fmt.Errorf("server %d is of group %d, and on leaf %d: its group is %d, on leaf %d", s, le.Uint32(r.groupsOf[4*s:]), r.view.leaf(s), k, r.view.leaf(first))
			}
		}
		next += count
	}
	if next != r.view.servers {
		return fmt.Errorf("%d of %d servers are in groups", next, r.view.servers)
	}
	return nil
}

// checkShift checks that every server has a place of its own, and lanes that there are.
func (r *rules) checkShift() error {
	on := 0
	for place := range r.groups {
		if s := r.onPlace(place); s != noneOf {
			if int64(s) >= int64(r.view.servers) || int(le.Uint32(r.units[int(s)*placeSize:])) != place {
				return fmt.Errorf("server %d is on place %d, and has another", s, place)
			}
			on++
		}
	}
	if on != r.view.servers {
		return fmt.Errorf("%d of %d servers are on places", on, r.view.servers)
	}
	for s := range r.view.servers {
		at := r.units[s*placeSize:]
		for _, lane := range []int16{int16(le.Uint16(at[8:])), int16(le.Uint16(at[10:]))} {
			if r.view.lanes > 0 && (lane < 0 || int(lane) >= r.view.lanes) {
				return fmt.Errorf("server %d is sent to over lane %d: there are %d", s, lane, r.view.lanes)
			}
		}
	}
	return nil
}

// expand writes the row of a server as tables of rows have it.
func (r *rules) expand(s int) ServerRow {
	row := make(ServerRow, r.view.phases*entrySize)
	for p := range r.view.phases {
		le.PutUint64(row[p*entrySize:], r.entryAt(s, p))
	}
	return row
}

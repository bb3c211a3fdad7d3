package phasetable

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Is reports whether data begins like a phase table.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }

// Decode reads a table in place and checks it completely: magic, version, length and CRC,
// the bounds of every section and name, the order of both indexes, and every transfer. Each
// sender has exactly the receiver that names it, no server sends to itself, lanes and LIDs
// fit the two servers. Whether the transfers make a complete exchange without conflicts is
// checked by package verify. Malformed input gives an error; it costs at most memory in
// proportion to the servers in the file.
func Decode(data []byte) (*View, error) {
	v, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode phase table: %w", err)
	}
	return v, nil
}

func decode(data []byte) (*View, error) {
	if err := checkHeader(data); err != nil {
		return nil, err
	}
	v, err := open(data)
	if err != nil {
		return nil, err
	}
	transfers := v.checkRows
	if v.rules != nil {
		transfers = v.rules.check
	}
	for _, check := range []func() error{v.checkServers, v.checkIndexes, transfers} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// open finds the sections of a table whose header has been checked.
func open(data []byte) (*View, error) {
	v := &View{data: data, epoch: le.Uint64(data[offEpoch:]), job: le.Uint64(data[offJob:]), lmc: data[offLMC]}
	servers, phases, lanes := le.Uint32(data[offServers:]), le.Uint32(data[offPhases:]), le.Uint16(data[offLanes:])
	switch {
	case servers > uint32(MaxServers):
		return nil, fmt.Errorf("%d servers: at most %d have a unicast LID", servers, MaxServers)
	case phases > maxPhases || servers == 0 && phases > 0:
		return nil, fmt.Errorf("%d phases for %d servers", phases, servers)
	case lanes > maxLanes:
		return nil, fmt.Errorf("%d lanes: at most %d are possible", lanes, maxLanes)
	}
	v.servers, v.phases, v.lanes = int(servers), int(phases), int(lanes)
	if le.Uint32(data[offVersion:]) == VersionRules {
		if err := readRules(v); err != nil {
			return nil, err
		}
	}
	if err := v.slice(uint64(servers), uint64(phases)); err != nil {
		return nil, err
	}
	return v, nil
}

// checkHeader checks what must hold before any other field means anything.
func checkHeader(data []byte) error {
	if len(data) < headerSize {
		return fmt.Errorf("%d bytes are less than the header of %d", len(data), headerSize)
	}
	if !Is(data) {
		return fmt.Errorf("the file begins with %q: a phase table begins with %q", data[:offVersion], magic)
	}
	version := le.Uint32(data[offVersion:])
	if version != Version && version != VersionRules {
		return fmt.Errorf("version %d: this reader knows versions %d and %d", version, Version, VersionRules)
	}
	if total := le.Uint64(data[offTotal:]); total != uint64(len(data)) {
		return fmt.Errorf("%d bytes of the %d that the header promises", len(data), total)
	}
	if want, got := le.Uint32(data[offCRC:]), checksum(data); want != got {
		return fmt.Errorf("checksum %#08x of the content is not %#08x as in the header: the file is damaged", got, want)
	}
	if flags := le.Uint32(data[offFlags:]) & mustKnowFlags; flags != 0 {
		return fmt.Errorf("flags %#08x are unknown and must not be ignored", flags)
	}
	least := uint32(headerSize)
	if version == VersionRules {
		least = headerSizeRules
	}
	if size := le.Uint32(data[offHeaderSize:]); size < least || size%align != 0 || uint64(size) > uint64(len(data)) {
		return fmt.Errorf("header of %d bytes: want a multiple of %d from %d", size, align, least)
	}
	return nil
}

// slice cuts the sections out of the file. They are aligned, in order and apart,
// and have the length that the numbers of servers and phases give them.
func (v *View) slice(servers, phases uint64) error {
	want, names := []uint64{servers * srvSize, servers * 4, servers * 4, 0}, sectionNames[:]
	if v.rules == nil {
		want = append(want, servers*phases*entrySize)
	} else {
		more := v.rules.lengths(servers)
		want, names = append(want, more[:]...), ruleSectionNames[:]
	}
	at := make([][]byte, len(want))
	end := uint64(le.Uint32(v.data[offHeaderSize:]))
	for i := range at {
		off, length := le.Uint64(v.data[offSections+16*i:]), le.Uint64(v.data[offSections+16*i+8:])
		if off%align != 0 || off < end || off > uint64(len(v.data)) || length > uint64(len(v.data))-off {
			return fmt.Errorf("%s: offset %d and length %d in a file of %d bytes: want an offset of at least %d, a multiple of %d",
				names[i], off, length, len(v.data), end, align)
		}
		if i != secNames && length != want[i] {
			return fmt.Errorf("%s: %d bytes for %d servers and %d phases: want %d", names[i], length, servers, phases, want[i])
		}
		end = off + length
		at[i] = v.data[off:end:end]
	}
	v.dir, v.byGUID, v.byLID, v.names = at[secServers], at[secByGUID], at[secByLID], at[secNames]
	if r := v.rules; r != nil {
		r.units, r.received, r.members, r.groupsOf = at[secUnits], at[secReceived], at[secGroups], at[secGroupOf]
	} else {
		v.rows = at[secRows]
	}
	return nil
}

// checkServers checks the directory and its names.
func (v *View) checkServers() error {
	var most uint8
	for i := range v.servers {
		e := v.entry(i)
		off, length := uint64(le.Uint32(e[srvNameOff:])), uint64(le.Uint32(e[srvNameLen:]))
		if off+length >= uint64(len(v.names)) {
			return fmt.Errorf("server %d: name at %d of %d bytes in a string table of %d", i, off, length, len(v.names))
		}
		if v.names[off+length] != 0 || !utf8.Valid(v.names[off:off+length]) {
			return fmt.Errorf("server %d: name %q is not UTF-8 with a zero byte after it", i, v.names[off:off+length])
		}
		s := ServerEntry{GUID: v.guid(i), LID: v.lid(i), LMC: v.lmcOf(i), Leaf: int(le.Uint16(e[srvLeaf:]))}
		if err := s.check(); err != nil {
			return fmt.Errorf("server %d (%q): %w", i, v.name(i), err)
		}
		most = max(most, s.LMC)
	}
	if most != v.lmc {
		return fmt.Errorf("the largest LMC is %d: the header says %d", most, v.lmc)
	}
	return nil
}

// checkIndexes checks that both indexes name every server once, in ascending
// order; strict order alone implies that none is named twice.
func (v *View) checkIndexes() error {
	for i := range v.servers {
		if v.nth(v.byGUID, i) >= v.servers || v.nth(v.byLID, i) >= v.servers {
			return fmt.Errorf("place %d of an index names a server beyond the %d there are", i, v.servers)
		}
		if i == 0 {
			continue
		}
		if a, b := v.nth(v.byGUID, i-1), v.nth(v.byGUID, i); v.guid(a) >= v.guid(b) {
			return fmt.Errorf("index by GUID, place %d: %s does not follow %s", i, v.guid(b), v.guid(a))
		}
		if a, b := v.nth(v.byLID, i-1), v.nth(v.byLID, i); v.lastLID(a) >= v.lid(b) {
			return fmt.Errorf("index by LID, place %d: LID %d of server %d does not follow LIDs %d–%d of server %d",
				i, v.lid(b), b, v.lid(a), v.lastLID(a), a)
		}
	}
	return nil
}

// peers returns the servers' data for checking transfers.
func (v *View) peers() []peer {
	peers := make([]peer, v.servers)
	for i := range peers {
		peers[i] = peerOf(v.leaf(i), v.lid(i), v.lmcOf(i))
	}
	return peers
}

// checkRows checks every transfer, and that there are as many receivers as senders: since
// each sender's receiver names it, no other server receives.
func (v *View) checkRows() error {
	peers := v.peers()
	for first := 0; first < v.phases; first += tile {
		last, spare := min(first+tile, v.phases)-1, 0
		for s := range peers {
			n, err := v.checkEntries(peers, s, first, last)
			if err != nil {
				return err
			}
			spare += n
		}
		if spare != 0 {
			return fmt.Errorf("phases %d–%d: %d more servers receive than send", first, last, spare)
		}
	}
	return nil
}

// checkEntries checks what server s sends in the phases from first to last. It
// returns how often it receives there, less how often it sends.
func (v *View) checkEntries(peers []peer, s, first, last int) (spare int, err error) {
	rows, row := v.rows, v.phases*entrySize
	for p := first; p <= last; p++ {
		e := le.Uint64(rows[s*row+p*entrySize:])
		if uint16(e>>shiftRecv) != nobody {
			spare++
		}
		d := int(uint16(e))
		if d == nobody {
			if e|nobody<<shiftRecv != idleEntry {
				return 0, fmt.Errorf("phase %d: server %d does not send, yet has LID %d and lane %d", p, s, uint16(e>>shiftDLID), int16(e>>shiftLane))
			}
			continue
		}
		spare--
		if d >= len(peers) {
			return 0, fmt.Errorf("phase %d, server %d sends to server %d: there are %d", p, s, d, len(peers))
		}
		if back := le.Uint16(rows[d*row+p*entrySize+2:]); int(back) != s {
			return 0, fmt.Errorf("phase %d: server %d sends to server %d, which receives from %d", p, s, d, number(back))
		}
		k, lid := int16(e>>shiftLane), uint16(e>>shiftDLID)
		if s == d || !fits(peers[s], peers[d], k, lid, v.lanes) {
			return 0, misfit(p, s, d, peers[s], peers[d], k, lid, v.lanes)
		}
	}
	return spare, nil
}

package phasetable

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

var le = binary.LittleEndian

// Encode prints the table as its file holds it. The output is the same for the
// same table. A table that Decode would refuse is refused with the reason:
// servers that share a GUID or a LID, a server that receives twice in a phase,
// a LID that is not the destination's. Bytes of names that are not UTF-8 become
// U+FFFD.
func Encode(t *Table) ([]byte, error) {
	hash, err := t.shape()
	if err != nil {
		return nil, fmt.Errorf("encode phase table: %w", err)
	}
	if t.Blocks != nil || t.Shift != nil {
		out, err := encodeRules(t, hash)
		if err != nil {
			return nil, fmt.Errorf("encode phase table: %w", err)
		}
		return out, nil
	}
	d, err := newDirectory(t.Servers)
	if err != nil {
		return nil, fmt.Errorf("encode phase table: %w", err)
	}
	out, at := d.layOut(headerSize, []uint64{uint64(len(t.Servers)) * uint64(t.Phases) * entrySize})
	putHeader(out, t, hash, d.lmc, Version, headerSize)
	if err := putRows(out[at[secRows]:], t); err != nil {
		return nil, fmt.Errorf("encode phase table: %w", err)
	}
	le.PutUint32(out[offCRC:], checksum(out))
	return out, nil
}

// directory is what tables of both versions begin with.
type directory struct {
	servers       []ServerEntry
	names         []string
	byGUID, byLID []uint32
	lmc           uint8 // the largest
}

func newDirectory(servers []ServerEntry) (*directory, error) {
	d := &directory{servers: servers, names: make([]string, len(servers))}
	var err error
	if d.byGUID, d.byLID, err = indexServers(servers); err != nil {
		return nil, err
	}
	var nameBytes uint64
	for i := range servers {
		d.names[i] = strings.ToValidUTF8(servers[i].Name, "\uFFFD")
		nameBytes += uint64(len(d.names[i])) + 1
		d.lmc = max(d.lmc, servers[i].LMC)
	}
	if nameBytes > math.MaxUint32 {
		return nil, fmt.Errorf("%d bytes of host descriptions: at most %d fit", nameBytes, uint32(math.MaxUint32))
	}
	return d, nil
}

// layOut makes room for a file with further sections of given lengths, and fills the
// directory's in. It returns where all of them begin.
func (d *directory) layOut(header uint64, more []uint64) (out []byte, at []uint64) {
	n, nameBytes := uint64(len(d.servers)), uint64(0)
	for _, name := range d.names {
		nameBytes += uint64(len(name)) + 1
	}
	length := append([]uint64{n * srvSize, n * 4, n * 4, nameBytes}, more...)
	end := header
	for _, l := range length {
		at = append(at, alignUp(end))
		end = at[len(at)-1] + l
	}
	out = make([]byte, end)
	for i := range at {
		le.PutUint64(out[offSections+16*i:], at[i])
		le.PutUint64(out[offSections+16*i+8:], length[i])
	}
	putServers(out[at[secServers]:], out[at[secNames]:], d.servers, d.names)
	for i := range d.byGUID {
		le.PutUint32(out[at[secByGUID]+4*uint64(i):], d.byGUID[i])
		le.PutUint32(out[at[secByLID]+4*uint64(i):], d.byLID[i])
	}
	return out, at
}

// New encodes a table and reads it in place. Decode would check once more what Encode
// has checked, and finds nothing.
func New(t *Table) (*View, error) {
	data, err := Encode(t)
	if err != nil {
		return nil, err
	}
	return open(data)
}

func putHeader(out []byte, t *Table, hash [hashSize]byte, lmc uint8, version, size uint32) {
	copy(out[offMagic:], magic)
	le.PutUint32(out[offVersion:], version)
	le.PutUint32(out[offHeaderSize:], size)
	le.PutUint64(out[offTotal:], uint64(len(out)))
	if t.OwnCables {
		le.PutUint32(out[offFlags:], ownCables)
	}
	le.PutUint64(out[offEpoch:], t.Epoch)
	le.PutUint64(out[offJob:], t.Job)
	copy(out[offHash:], hash[:])
	le.PutUint32(out[offServers:], uint32(len(t.Servers)))
	le.PutUint32(out[offPhases:], uint32(t.Phases))
	le.PutUint16(out[offLanes:], uint16(t.Lanes))
	out[offLMC] = lmc
}

// putServers writes the directory and the string table it points into.
func putServers(dir, table []byte, servers []ServerEntry, names []string) {
	next := 0
	for i := range servers {
		s, e := &servers[i], dir[i*srvSize:(i+1)*srvSize]
		le.PutUint64(e[srvGUID:], uint64(s.GUID))
		le.PutUint16(e[srvLID:], uint16(s.LID))
		e[srvLMC] = s.LMC
		le.PutUint16(e[srvLeaf:], uint16(s.Leaf))
		le.PutUint32(e[srvNameOff:], uint32(next))
		le.PutUint32(e[srvNameLen:], uint32(len(names[i])))
		next += copy(table[next:], names[i]) + 1
	}
}

// putRows turns the table's phases into the servers' rows. Successive phases share the
// cache lines that they write to.
func putRows(rows []byte, t *Table) error {
	n := len(t.Servers)
	peers := make([]peer, n)
	for i := range t.Servers {
		peers[i] = peerOf(uint16(t.Servers[i].Leaf), t.Servers[i].LID, t.Servers[i].LMC)
	}
	from := make([]uint16, n) // [receiver] its sender
	for p := range t.Phases {
		if err := matchPhase(from, t, peers, p); err != nil {
			return err
		}
		to, lane, dlid := t.To[p*n:][:n], t.Lane[p*n:][:n], t.DLID[p*n:][:n]
		at := p * entrySize
		for s, d := range to {
			e := uint64(idleEntry) &^ (nobody << shiftRecv)
			if d != Idle {
				e = uint64(uint16(d)) | uint64(dlid[s])<<shiftDLID | uint64(uint16(lane[s]))<<shiftLane
			}
			le.PutUint64(rows[at:], e|uint64(from[s])<<shiftRecv)
			at += t.Phases * entrySize
		}
	}
	return nil
}

// matchPhase checks the transfers of phase p and notes each receiver's sender.
func matchPhase(from []uint16, t *Table, peers []peer, p int) error {
	n, lanes := len(peers), t.Lanes
	to, lane, dlid := t.To[p*n:(p+1)*n], t.Lane[p*n:(p+1)*n], t.DLID[p*n:(p+1)*n]
	for i := range from {
		from[i] = nobody
	}
	for s, d := range to {
		if d == Idle {
			continue
		}
		if uint(d) >= uint(n) {
			return fmt.Errorf("phase %d, server %d sends to server %d: there are %d", p, s, d, n)
		}
		if from[d] != nobody {
			return fmt.Errorf("phase %d: server %d receives from servers %d and %d", p, d, from[d], s)
		}
		from[d] = uint16(s)
		if s == int(d) || !fits(peers[s], peers[d], lane[s], uint16(dlid[s]), lanes) {
			return misfit(p, s, int(d), peers[s], peers[d], lane[s], uint16(dlid[s]), lanes)
		}
	}
	return nil
}

// indexServers checks every server and returns their numbers in ascending order
// of GUID and of LID.
func indexServers(servers []ServerEntry) (byGUID, byLID []uint32, err error) {
	byGUID, byLID = make([]uint32, len(servers)), make([]uint32, len(servers))
	for i := range servers {
		if err := servers[i].check(); err != nil {
			return nil, nil, fmt.Errorf("server %d (%q): %w", i, servers[i].Name, err)
		}
		byGUID[i], byLID[i] = uint32(i), uint32(i)
	}
	slices.SortFunc(byGUID, func(a, b uint32) int { return cmp.Compare(servers[a].GUID, servers[b].GUID) })
	slices.SortFunc(byLID, func(a, b uint32) int { return cmp.Compare(servers[a].LID, servers[b].LID) })
	for i := 1; i < len(servers); i++ {
		a, b := byGUID[i-1], byGUID[i]
		if servers[a].GUID == servers[b].GUID {
			return nil, nil, fmt.Errorf("servers %d and %d both have port GUID %s", min(a, b), max(a, b), servers[a].GUID)
		}
		a, b = byLID[i-1], byLID[i]
		if last := servers[a].LID + 1<<servers[a].LMC - 1; last >= servers[b].LID {
			return nil, nil, fmt.Errorf("LID %d of server %d is in the range %d–%d of server %d", servers[b].LID, b, servers[a].LID, last, a)
		}
	}
	return byGUID, byLID, nil
}

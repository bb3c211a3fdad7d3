package phasetable

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
)

// View reads a table in place: it refers to the bytes given to Decode and
// copies none of them. It is safe for concurrent use as long as those bytes do
// not change.
type View struct {
	data                   []byte
	servers, phases, lanes int
	dir, names, rows       []byte
	byGUID, byLID          []byte
	epoch, job             uint64
	lmc                    uint8
	rules                  *rules // of version 2; rows is empty then
}

// Epoch returns the number of the plan.
func (v *View) Epoch() uint64 { return v.epoch }

// Job returns the job that the table belongs to, 0 for the whole fabric.
func (v *View) Job() uint64 { return v.job }

// TopologyHash returns the digest of the fabric that the plan was made for, 64 hexadecimal
// digits, or "" if the table has none.
func (v *View) TopologyHash() string {
	if hash := [hashSize]byte(v.data[offHash:]); hash != [hashSize]byte{} {
		return hex.EncodeToString(hash[:])
	}
	return ""
}

// Bytes returns the whole table as it was decoded.
func (v *View) Bytes() []byte { return v.data }

// Servers returns the number of servers.
func (v *View) Servers() int { return v.servers }

// Phases returns the number of phases.
func (v *View) Phases() int { return v.phases }

// Lanes returns the number of lanes.
func (v *View) Lanes() int { return v.lanes }

// LMC returns the largest LMC of a server.
func (v *View) LMC() uint8 { return v.lmc }

// Server returns the directory's entry of server i, 0 ≤ i < Servers().
func (v *View) Server(i int) ServerEntry {
	return ServerEntry{GUID: v.guid(i), LID: v.lid(i), LMC: v.lmcOf(i),
		Leaf: int(v.leaf(i)), Name: string(v.name(i))}
}

func (v *View) entry(i int) []byte   { return v.dir[i*srvSize : (i+1)*srvSize] }
func (v *View) guid(i int) ib.GUID   { return ib.GUID(le.Uint64(v.entry(i)[srvGUID:])) }
func (v *View) lid(i int) ib.LID     { return ib.LID(le.Uint16(v.entry(i)[srvLID:])) }
func (v *View) leaf(i int) uint16    { return le.Uint16(v.entry(i)[srvLeaf:]) }
func (v *View) lmcOf(i int) uint8    { return v.entry(i)[srvLMC] }
func (v *View) lastLID(i int) ib.LID { return v.lid(i) + 1<<v.lmcOf(i) - 1 }

func (v *View) name(i int) []byte {
	e := v.entry(i)
	off := uint64(le.Uint32(e[srvNameOff:]))
	return v.names[off : off+uint64(le.Uint32(e[srvNameLen:]))]
}

// FindGUID returns the number of the server with port GUID g.
func (v *View) FindGUID(g ib.GUID) (int, bool) {
	i := sort.Search(v.servers, func(i int) bool { return v.guid(v.nth(v.byGUID, i)) >= g })
	if i == v.servers {
		return 0, false
	}
	s := v.nth(v.byGUID, i)
	return s, v.guid(s) == g
}

// FindLID returns the number of the server that answers to lid, its base LID or
// any other of its LIDs.
func (v *View) FindLID(lid ib.LID) (int, bool) {
	i := sort.Search(v.servers, func(i int) bool { return v.lastLID(v.nth(v.byLID, i)) >= lid })
	if i == v.servers {
		return 0, false
	}
	s := v.nth(v.byLID, i)
	return s, v.lid(s) <= lid
}

// FindName returns the numbers of the servers whose description is name,
// ascending: the ports of one adapter share theirs.
func (v *View) FindName(name string) []int {
	var found []int
	for i := range v.servers {
		if string(v.name(i)) == name {
			found = append(found, i)
		}
	}
	return found
}

// ErrAmbiguous is wrapped by the error of Find where several servers have the
// name.
var ErrAmbiguous = errors.New("servers are called")

// Find looks a server up by its description, its port GUID (0x and hexadecimal
// digits), any of its LIDs (decimal), or the name of its host, in this order. Case does
// not count in a host's name, nor the domain where only one side has it.
func (v *View) Find(key string) (int, error) {
	if found := v.FindName(key); len(found) > 0 {
		return v.only(key, found)
	}
	if strings.HasPrefix(key, "0x") {
		if g, err := ib.ParseGUID(key); err == nil {
			if i, ok := v.FindGUID(g); ok {
				return i, nil
			}
		}
	} else if lid, err := strconv.ParseUint(key, 10, 16); err == nil {
		if i, ok := v.FindLID(ib.LID(lid)); ok {
			return i, nil
		}
	}
	for _, means := range []func(host string) bool{
		func(host string) bool { return host == key },
		func(host string) bool { return ib.SameHost(host, key) },
	} {
		var found []int
		for i := range v.servers {
			if means(ib.FirstWord(string(v.name(i)))) && key != "" {
				found = append(found, i)
			}
		}
		if len(found) > 0 {
			return v.only(key, found)
		}
	}
	hint := ib.DidYouMean(key, func(yield func(string) bool) {
		for i := range v.servers {
			if !yield(ib.FirstWord(string(v.name(i)))) {
				return
			}
		}
	})
	return 0, fmt.Errorf("no server of the plan has the name, port GUID or LID %.100q%s", key, hint)
}

// only returns the one server that a key means.
func (v *View) only(key string, found []int) (int, error) {
	if len(found) == 1 {
		return found[0], nil
	}
	guids := make([]string, len(found))
	for i, s := range found {
		guids[i] = v.guid(s).String()
	}
	return 0, fmt.Errorf("%d %w %q: ask by port GUID, one of %s", len(found), ErrAmbiguous, key, strings.Join(guids, ", "))
}

// nth returns the server at place i of an index.
func (v *View) nth(index []byte, i int) int { return int(le.Uint32(index[4*i:])) }

// ServerRow is what one server does, phase by phase.
type ServerRow []byte

// Entry is what a server does in one phase.
type Entry struct {
	SendTo   int    // server number, Idle when it does not send
	RecvFrom int    // server number, Idle when it does not receive
	DLID     ib.LID // where to send to, 0 when it does not send
	Lane     int    // the lane its message takes; Local on its leaf or when it does not send
}

// At returns what server s does in phase p.
func (v *View) At(s, p int) Entry {
	if v.rules != nil {
		return entryOf(v.rules.entryAt(s, p))
	}
	return entryOf(le.Uint64(v.rows[(s*v.phases+p)*entrySize:]))
}

// Row returns the row of server i, 0 ≤ i < Servers(), without copying it, or worked out of
// a rule.
func (v *View) Row(i int) ServerRow {
	if v.rules != nil {
		return v.rules.expand(i)
	}
	size := v.phases * entrySize
	return v.rows[i*size : (i+1)*size : (i+1)*size]
}

// Len returns the number of phases.
func (r ServerRow) Len() int { return len(r) / entrySize }

// At returns the entry of phase p, 0 ≤ p < Len().
func (r ServerRow) At(p int) Entry { return entryOf(le.Uint64(r[p*entrySize:])) }

func entryOf(e uint64) Entry {
	return Entry{SendTo: number(uint16(e)), RecvFrom: number(uint16(e >> shiftRecv)),
		DLID: ib.LID(e >> shiftDLID), Lane: int(int16(e >> shiftLane))}
}

// number converts a server number of the file: Idle if none.
func number(n uint16) int {
	if n == nobody {
		return Idle
	}
	return int(n)
}

// Pair is the first message that one server has for another.
type Pair struct {
	Phase int
	Lane  int    // Local on its leaf
	DLID  ib.LID // where to send to
	// SrcPathBits is where to send from, as an offset to the sender's base LID: the LID
	// at which the sender receives from its peer, so that the two ends of a reliable
	// connection mirror each other. It is 0 where the peer sends nothing back.
	SrcPathBits int
}

// FindPair returns the message from server s to its peer. It is false if there is none.
func (v *View) FindPair(s, peer int) (Pair, bool) {
	there, ok := v.sends(s, peer)
	if !ok {
		return Pair{}, false
	}
	e := v.At(s, there)
	p := Pair{Phase: there, Lane: e.Lane, DLID: e.DLID}
	if back, ok := v.sends(peer, s); ok {
		p.SrcPathBits = int(v.At(peer, back).DLID - v.lid(s))
	}
	return p, true
}

// sends returns the first phase in which a server sends to another.
func (v *View) sends(s, peer int) (phase int, ok bool) {
	row := v.Row(s)
	for p := range row.Len() {
		if row.At(p).SendTo == peer {
			return p, true
		}
	}
	return 0, false
}

// Numbered returns the same plan for a job, or 0, under another number, for a fabric of another
// hash.
func (v *View) Numbered(job, epoch uint64, topologyHash string) (*View, error) {
	hash, err := (&Table{TopologyHash: topologyHash}).shape()
	if err != nil {
		return nil, err
	}
	data := append([]byte(nil), v.data...)
	le.PutUint64(data[offEpoch:], epoch)
	le.PutUint64(data[offJob:], job)
	copy(data[offHash:], hash[:])
	le.PutUint32(data[offCRC:], checksum(data))
	return open(data)
}

// Same reports whether two views are of the same plan. Their epochs and fabrics may differ.
func Same(v, w *View) bool {
	return v.job == w.job && bytes.Equal(v.data[offHash+hashSize:], w.data[offHash+hashSize:])
}

// ToBaseLIDs reports whether all transfers go to base LIDs.
func (v *View) ToBaseLIDs() bool {
	if r := v.rules; r != nil {
		for i := 0; r.form == formBlocks && i < len(r.units); i += unitSize {
			_, members := r.membersOf(i / unitSize / (r.group * r.blocks))
			if d := le.Uint16(r.units[i:]); members > 0 && d != nobody && v.lid(int(d)) != ib.LID(le.Uint16(r.units[i+2:])) {
				return false
			}
		}
		return true
	}
	for s := range v.servers {
		row := v.Row(s)
		for p := range row.Len() {
			if x := row.At(p); x.SendTo != Idle && x.DLID != v.lid(x.SendTo) {
				return false
			}
		}
	}
	return true
}

// Table copies the view into a table of rows, phase by phase.
func (v *View) Table() *Table {
	n := v.servers
	t := &Table{Epoch: v.epoch, Job: v.job, TopologyHash: v.TopologyHash(), Phases: v.phases, Lanes: v.lanes, OwnCables: le.Uint32(v.data[offFlags:])&ownCables != 0,
		Servers: make([]ServerEntry, n), To: make([]int32, n*v.phases),
		Lane: make([]int16, n*v.phases), DLID: make([]ib.LID, n*v.phases)}
	for s := range n {
		t.Servers[s] = v.Server(s)
	}
	for first := 0; first < v.phases; first += tile {
		for s := range n {
			for p := first; p < min(first+tile, v.phases); p++ {
				e := v.At(s, p)
				t.To[p*n+s], t.Lane[p*n+s], t.DLID[p*n+s] = int32(e.SendTo), int16(e.Lane), e.DLID
			}
		}
	}
	return t
}

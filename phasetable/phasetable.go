// Package phasetable is the table of a plan that ranks map into memory, its
// writer and its reader, and the same rows as CSV. docs/phase-table.md
// describes the binary format byte by byte.
//
// A table speaks of servers by number, in the order of the plan. A directory in
// the file leads from a GUID, a LID or a name to a server's number, and each
// server's row holds everything its rank needs, phase by phase.
package phasetable

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/forsd/forsd/ib"
)

// MediaType is the media type of a binary table in HTTP.
const MediaType = "application/vnd.forsd.phasetable"

// Version is the version of tables with a row for each server; see VersionRules for the
// other one that this package reads and writes.
const Version = 1

// MaxServers is the largest number of servers: each needs a unicast LID.
const MaxServers = int(ib.MaxUnicastLID)

// Idle is the server number that means "none". Local is the lane of a transfer within a
// leaf, and of every transfer in a table without lanes.
const (
	Idle  = -1
	Local = -1
)

// ServerEntry is a server of the directory.
type ServerEntry struct {
	GUID ib.GUID // port GUID
	LID  ib.LID  // base LID
	LMC  uint8   // the server answers to LIDs LID … LID+2^LMC−1
	Leaf int     // index of its leaf
	Name string  // host description
}

// Table is a plan bound to the LIDs of a fabric. To, Lane and DLID are indexed
// [phase·len(Servers)+source].
type Table struct {
	Epoch        uint64
	Job          uint64 // 0 for the whole fabric
	TopologyHash string // 64 hexadecimal digits, or empty
	Servers      []ServerEntry
	Phases       int
	Lanes        int
	To           []int32  // destination server, Idle where the source does not send
	Lane         []int16  // lane, Local for same-leaf transfers; of no meaning where idle
	DLID         []ib.LID // destination LID; of no meaning where idle
	// OwnCables means that a lane is a cable of its own of each leaf, and a message takes no others.
	OwnCables bool

	// One of these takes the place of Phases, To, Lane and DLID: the table is of version 2.
	Blocks *Blocks
	Shift  *Shift
}

// shape checks everything about the table but its transfers, and returns the
// topology hash.
func (t *Table) shape() (hash [hashSize]byte, err error) {
	n := len(t.Servers)
	switch {
	case n > MaxServers:
		return hash, fmt.Errorf("%d servers: at most %d have a unicast LID", n, MaxServers)
	case t.Phases < 0 || int64(t.Phases) > maxPhases:
		return hash, fmt.Errorf("%d phases: want 0 to %d", t.Phases, int64(maxPhases))
	case n == 0 && t.Phases > 0:
		return hash, fmt.Errorf("%d phases without a server", t.Phases)
	case t.Lanes < 0 || t.Lanes > maxLanes:
		return hash, fmt.Errorf("%d lanes: want 0 to %d", t.Lanes, maxLanes)
	case len(t.To) != n*t.Phases || len(t.Lane) != len(t.To) || len(t.DLID) != len(t.To):
		return hash, fmt.Errorf("rows of %d destinations, %d lanes and %d LIDs: want %d phases × %d servers of each",
			len(t.To), len(t.Lane), len(t.DLID), t.Phases, n)
	}
	if t.TopologyHash == "" {
		return hash, nil
	}
	if len(t.TopologyHash) != hex.EncodedLen(hashSize) {
		return hash, fmt.Errorf("topology hash of %d digits: want %d", len(t.TopologyHash), hex.EncodedLen(hashSize))
	}
	if _, err := hex.Decode(hash[:], []byte(t.TopologyHash)); err != nil {
		return hash, fmt.Errorf("topology hash: %w", err)
	}
	return hash, nil
}

// check checks a server on its own.
func (s *ServerEntry) check() error {
	switch {
	case s.GUID == 0:
		return errors.New("it has no port GUID")
	case s.LMC > ib.MaxLMC:
		return fmt.Errorf("LMC %d is over %d", s.LMC, ib.MaxLMC)
	case s.LID == 0:
		return errors.New("it has no LID")
	case int(s.LID)+1<<s.LMC-1 > int(ib.MaxUnicastLID):
		return fmt.Errorf("LIDs %d–%d leave the unicast range, which ends at %d", s.LID, int(s.LID)+1<<s.LMC-1, ib.MaxUnicastLID)
	case s.Leaf < 0 || s.Leaf > maxLeaf:
		return fmt.Errorf("leaf %d: want 0 to %d", s.Leaf, maxLeaf)
	}
	return nil
}

// peer is a server's data for checking transfers.
type peer struct {
	leaf uint16
	lid  uint16 // base LID
	more uint16 // 2^LMC−1: how many LIDs follow the base LID
}

func peerOf(leaf uint16, lid ib.LID, lmc uint8) peer {
	return peer{leaf, uint16(lid), 1<<lmc - 1}
}

// fits reports whether a transfer between two different servers is valid: it has no lane
// exactly if both share a leaf or the table is without lanes, and its LID is one of the
// destination's.
func fits(src, dst peer, lane int16, dlid uint16, lanes int) bool {
	if src.leaf == dst.leaf || lanes == 0 {
		return lane == Local && dlid == dst.lid
	}
	return uint(lane) < uint(lanes) && dlid-dst.lid <= dst.more
}

// misfit describes the error of the transfer of phase p from server s to server d.
func misfit(p, s, d int, src, dst peer, lane int16, dlid uint16, lanes int) error {
	at := fmt.Sprintf("phase %d, server %d to %d", p, s, d)
	switch {
	case s == d:
		return fmt.Errorf("%s: a server sends to itself", at)
	case lanes == 0 && lane != Local:
		return fmt.Errorf("%s: lane %d where there are none: want %d", at, lane, Local)
	case src.leaf == dst.leaf && lane != Local:
		return fmt.Errorf("%s: lane %d between servers of leaf %d: want %d", at, lane, src.leaf, Local)
	case src.leaf == dst.leaf || lanes == 0:
		return fmt.Errorf("%s: LID %d of a transfer without a lane: want the base LID %d", at, dlid, dst.lid)
	case lane < 0 || int(lane) >= lanes:
		return fmt.Errorf("%s: lane %d from leaf %d to leaf %d: want 0 to %d", at, lane, src.leaf, dst.leaf, lanes-1)
	}
	return fmt.Errorf("%s: LID %d is not one of the destination's, %d–%d", at, dlid, dst.lid, dst.lid+dst.more)
}

package phasetable

import "hash/crc32"

// The header, byte by byte; docs/phase-table.md has the same list.
const (
	magic = "FORSDPHT"

	offMagic      = 0
	offVersion    = 8
	offHeaderSize = 12
	offTotal      = 16
	offCRC        = 24
	offFlags      = 28
	offEpoch      = 32
	offJob        = 40
	offHash       = 48
	offServers    = 80
	offPhases     = 84
	offLanes      = 88
	offLMC        = 90
	offSections   = 96 // one offset and one length, 8 bytes each, a section

	headerSize = 192
	hashSize   = 32
	align      = 64 // of every section and of the header
)

// The sections, in the order of the file.
const (
	secServers = iota // the directory
	secByGUID
	secByLID
	secNames
	secRows
	sections
)

var sectionNames = [...]string{"server directory", "index by GUID", "index by LID", "string table", "rows"}

// ruleSectionNames are those of version 2.
var ruleSectionNames = [sectionsRules]string{"server directory", "index by GUID", "index by LID", "string table", "units or places", "slots received from, or servers on places", "groups", "groups of servers"}

// An entry of the directory.
const (
	srvGUID    = 0
	srvLID     = 8
	srvLMC     = 10
	srvLeaf    = 12
	srvNameOff = 16
	srvNameLen = 20
	srvSize    = 24
)

// An entry of a row: send_to, recv_from, dlid and lane, 16 bits each from the
// least significant up.
const (
	entrySize = 8
	shiftRecv = 16
	shiftDLID = 32
	shiftLane = 48
	nobody    = 0xFFFF
	idleEntry = 0xFFFF_0000_FFFF_FFFF // sends to none, receives from none, LID 0, lane −1
)

// Flags that a reader does not know: those of the lower half it may ignore,
// those of the upper half forbid it to read on.
const (
	ownCables     = 1
	mustKnowFlags = 0xFFFF_0000
)

const (
	maxPhases = 1<<31 - 1
	maxLanes  = 1<<15 - 1
	maxLeaf   = 1<<16 - 1
)

// tile is the number of phases whose entries share a cache line. Rows are read tile by
// tile: a line at a time, and the lines of all servers stay in the first-level cache
// while senders and receivers are matched.
const tile = align / entrySize

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of the file with its CRC field taken as zero.
func checksum(data []byte) uint32 {
	crc := crc32.Update(0, castagnoli, data[:offCRC])
	crc = crc32.Update(crc, castagnoli, make([]byte, offFlags-offCRC))
	return crc32.Update(crc, castagnoli, data[offFlags:])
}

// alignUp rounds n up to a multiple of align.
func alignUp(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }

package plugin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
)

// maxTable is the number of entries of the longest table.
const maxTable = int(ib.MaxUnicastLID) + 1

// The parameters of FNV-1a, here over words of 64 bits.
const (
	fnvOffset = 0xCBF29CE484222325
	fnvPrime  = 0x100000001B3
)

// emptyBlock is a block without an entry.
var emptyBlock = bytes.Repeat([]byte{lft.NoPath}, lft.Block)

// block returns block b of a table, which spare is filled with where the table
// ends within it.
func block(out []uint8, b int, spare *[lft.Block]byte) []byte {
	from := b * lft.Block
	if from+lft.Block <= len(out) {
		return out[from : from+lft.Block]
	}
	copy(spare[:], emptyBlock)
	if from < len(out) {
		copy(spare[:], out[from:])
	}
	return spare[:]
}

// sumOf returns the sum of a whole set of tables, as the protocol defines it.
func sumOf(t *lft.Tables) uint64 {
	sum := uint64(fnvOffset)
	word := func(w uint64) { sum = (sum ^ w) * fnvPrime }
	var spare [lft.Block]byte
	for i := range t.Switches {
		s := &t.Switches[i]
		word(uint64(s.GUID))
		for b := range lft.Blocks(s.Out) {
			ports := block(s.Out, b, &spare)
			if bytes.Equal(ports, emptyBlock) {
				continue
			}
			word(uint64(b))
			for w := 0; w < lft.Block; w += 8 {
				word(binary.LittleEndian.Uint64(ports[w:]))
			}
		}
	}
	return max(sum, 1)
}

// sent is what the plugin holds once it has read what was sent.
type sent struct {
	tables *lft.Tables
	sum    uint64 // 0: nothing
}

// checkTables finds what the protocol cannot say.
func checkTables(t *lft.Tables) error {
	if len(t.Switches) == 0 {
		return fmt.Errorf("the tables have no switch")
	}
	for i := range t.Switches {
		s := &t.Switches[i]
		if len(s.Out) > maxTable {
			return fmt.Errorf("the table of switch %s has %d entries: at most %d are possible", s.GUID, len(s.Out), maxTable)
		}
		if i > 0 && t.Switches[i-1].GUID >= s.GUID {
			return fmt.Errorf("the table of switch %s is not in ascending order of GUID", s.GUID)
		}
	}
	return nil
}

// sameSwitches reports whether two sets have tables of the same switches.
func sameSwitches(a, b *lft.Tables) bool {
	if len(a.Switches) != len(b.Switches) {
		return false
	}
	for i := range a.Switches {
		if a.Switches[i].GUID != b.Switches[i].GUID {
			return false
		}
	}
	return true
}

// encodeTables encodes the message tables: t as a change of the plugin's tables if they
// have the same switches, and complete otherwise. It returns the plugin's tables after
// that.
func encodeTables(number uint64, t *lft.Tables, holds sent) ([]byte, sent, error) {
	if err := checkTables(t); err != nil {
		return nil, sent{}, err
	}
	if holds.sum != 0 && !sameSwitches(t, holds.tables) {
		holds = sent{}
	}
	next := sent{t, sumOf(t)}
	buf := newFrame(kindTables, time.Now())
	for _, w := range []uint64{number, holds.sum, next.sum} {
		buf = binary.LittleEndian.AppendUint64(buf, w)
	}
	counts := len(buf)
	buf = binary.LittleEndian.AppendUint32(buf, 0)
	changed := uint32(0)
	for i := range t.Switches {
		var before []uint8
		if holds.sum != 0 {
			before = holds.tables.Switches[i].Out
		}
		length := len(buf)
		buf = appendTable(buf, &t.Switches[i], before)
		if len(buf) == length+tableHead && holds.sum != 0 {
			buf = buf[:length] // nothing changes there
			continue
		}
		changed++
	}
	binary.LittleEndian.PutUint32(buf[counts:], changed)
	if len(buf)-headerSize > maxBody {
		return nil, sent{}, fmt.Errorf("the tables take %d bytes: at most %d can be sent", len(buf)-headerSize, maxBody)
	}
	return finish(buf), next, nil
}

// tableHead is the size of a switch's GUID and its number of blocks.
const tableHead = 10

// appendTable appends the blocks of a switch that differ from before.
func appendTable(buf []byte, s *lft.Table, before []uint8) []byte {
	buf = binary.LittleEndian.AppendUint64(buf, uint64(s.GUID))
	count := len(buf)
	buf = append(buf, 0, 0)
	n := uint16(0)
	var spare, old [lft.Block]byte
	for b := range max(lft.Blocks(s.Out), lft.Blocks(before)) {
		ports := block(s.Out, b, &spare)
		if bytes.Equal(ports, block(before, b, &old)) {
			continue
		}
		n++
		buf = append(binary.LittleEndian.AppendUint16(buf, uint16(b)), ports...)
	}
	binary.LittleEndian.PutUint16(buf[count:], n)
	return buf
}

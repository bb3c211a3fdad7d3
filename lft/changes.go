package lft

import (
	"bytes"
	"fmt"

	"github.com/forsd/forsd/ib"
)

// Block is the number of entries that a subnet manager sends at a time.
const Block = 64

// Blocks returns the number of blocks that a table reaches into.
func Blocks(out []uint8) int { return (len(out) + Block - 1) / Block }

// Blocks returns the number of blocks that all tables reach into.
func (t *Tables) Blocks() (n int) {
	for i := range t.Switches {
		n += Blocks(t.Switches[i].Out)
	}
	return n
}

// Delta counts the differences between two sets of tables.
type Delta struct {
	Switches int `json:"switches"` // switches with a difference
	Blocks   int `json:"blocks"`   // blocks of 64 entries: what a subnet manager would send
	Entries  int `json:"entries"`
}

// Changes counts the differences between a and b. A switch that one of them lacks counts as
// a table without entries.
func Changes(a, b *Tables) Delta {
	var d Delta
	count := func(x, y []uint8) {
		blocks, entries := differences(x, y)
		d.Blocks += blocks
		d.Entries += entries
		if blocks > 0 {
			d.Switches++
		}
	}
	i, j := 0, 0
	for i < len(a.Switches) || j < len(b.Switches) {
		switch {
		case j == len(b.Switches) || i < len(a.Switches) && a.Switches[i].GUID < b.Switches[j].GUID:
			count(a.Switches[i].Out, nil)
			i++
		case i == len(a.Switches) || b.Switches[j].GUID < a.Switches[i].GUID:
			count(nil, b.Switches[j].Out)
			j++
		default:
			count(a.Switches[i].Out, b.Switches[j].Out)
			i, j = i+1, j+1
		}
	}
	return d
}

// differences counts the blocks and entries in which two tables differ; beyond
// its end a table has no entries.
func differences(x, y []uint8) (blocks, entries int) {
	if len(x) < len(y) {
		x, y = y, x
	}
	for start := 0; start < len(x); start += Block {
		end := min(start+Block, len(x))
		if end <= len(y) && bytes.Equal(x[start:end], y[start:end]) {
			continue
		}
		before := entries
		for lid := start; lid < end; lid++ {
			other := NoPath
			if lid < len(y) {
				other = y[lid]
			}
			if x[lid] != other {
				entries++
			}
		}
		if entries > before {
			blocks++
		}
	}
	return blocks, entries
}

// Compare checks that the switches were programmed as planned in want for the given LIDs;
// got is the tables read back. The error names the first difference and counts the others.
func Compare(want, got *Tables, lids []ib.LID) error {
	var first string
	more := 0
	differ := func(format string, args ...any) {
		if first == "" {
			first = fmt.Sprintf(format, args...)
		} else {
			more++
		}
	}
	for i := range want.Switches {
		s := &want.Switches[i]
		j := got.Find(s.GUID)
		if j < 0 {
			differ("switch %s (%s): no table was read back", s.label(), s.GUID)
			continue
		}
		for _, lid := range lids {
			if w, g := want.Port(i, lid), got.Port(j, lid); w != g {
				differ("switch %s LID 0x%04x: %s programmed, %s planned", s.label(), lid, portWord(g), portWord(w))
			}
		}
	}
	switch {
	case first == "":
		return nil
	case more > 0:
		return fmt.Errorf("%s, and %d more differences", first, more)
	}
	return fmt.Errorf("%s", first)
}

// portWord formats an entry for messages.
func portWord(p uint8) string {
	if p == NoPath {
		return "no entry"
	}
	return fmt.Sprintf("port %d", p)
}

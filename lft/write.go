package lft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sort"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Owner is an end port that owns a range of LIDs.
type Owner struct {
	LID  ib.LID
	LMC  uint8
	GUID ib.GUID // port GUID
	Kind topology.Kind
	Name string // node description
}

// OwnersOf lists the end ports of f that have LIDs, in ascending order of LID.
func OwnersOf(f *topology.Fabric) []Owner {
	ends := f.EndPorts()
	owners := make([]Owner, 0, len(ends))
	for _, e := range ends {
		if e.LID != 0 {
			n := &f.Nodes[e.Node]
			owners = append(owners, Owner{e.LID, e.LMC, e.GUID, n.Kind, n.Name})
		}
	}
	sort.Slice(owners, func(a, b int) bool { return owners[a].LID < owners[b].LID })
	return owners
}

// maxName is the length in bytes at which names are truncated: OpenSM reads lines of at
// most 1022 bytes.
const maxName = 256

// Write prints the tables in OpenSM's dump format, for its file routing engine. With
// owners, every entry names the port that owns the LID, which lets OpenSM find it again
// when LIDs have moved, and makes the file six times as long. Entries without a path are
// omitted, as the format requires. The first line is a comment that counts switches and
// entries, so that Read detects a truncated file.
//
// It fails if w does, on a port that its switch does not have, and on a LID outside the
// unicast range, because either makes OpenSM reject the whole file.
func (t *Tables) Write(w io.Writer, owners []Owner) error {
	entries := 0
	for i := range t.Switches {
		n, err := t.Switches[i].check()
		if err != nil {
			return fmt.Errorf("write tables: %w", err)
		}
		entries += n
	}
	labels := newLabels(t, owners)
	buf := appendCount(nil, len(t.Switches), entries)
	for i := range t.Switches {
		buf = t.Switches[i].appendHeader(buf)
		buf = t.Switches[i].appendEntries(buf, labels)
		if _, err := w.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	if len(t.Switches) == 0 {
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// countFormat is the comment that counts switches and entries.
const countFormat = "# forsd tables: %d switches, %d entries"

func appendCount(buf []byte, switches, entries int) []byte {
	return append(fmt.Appendf(buf, countFormat, switches, entries), '\n')
}

// check counts the entries and rejects those that OpenSM would reject.
func (s *Table) check() (entries int, err error) {
	if len(s.Out) > int(ib.MaxUnicastLID)+1 {
		return 0, fmt.Errorf("the table of switch %s goes up to LID 0x%04x: unicast LIDs end at 0x%04x", s.label(), len(s.Out)-1, ib.MaxUnicastLID)
	}
	last := int(NoPath) - 1
	if s.Ports > 0 {
		last = min(last, s.Ports)
	}
	entries = len(s.Out) - bytes.Count(s.Out, []byte{NoPath})
	for lid, port := range s.Out {
		if int(port) > last && port != NoPath {
			return 0, fmt.Errorf("switch %s LID 0x%04x: port %d is not on a switch of %d ports", s.label(), lid, port, s.Ports)
		}
	}
	if len(s.Out) > 0 && s.Out[0] != NoPath {
		return 0, fmt.Errorf("switch %s has an entry for LID 0, which no port can have", s.label())
	}
	return entries, nil
}

// label returns the switch's name for messages.
func (s *Table) label() string {
	if s.Name == "" {
		return s.GUID.String()
	}
	return s.Name
}

func (s *Table) appendHeader(buf []byte) []byte {
	buf = fmt.Appendf(buf, "Unicast lids [0x1-0x%x] of switch Lid %d guid %s ('", max(1, len(s.Out)-1), s.LID, s.GUID)
	buf = appendName(buf, s.Name)
	return append(buf, "'):\n"...)
}

// appendName appends a description without the characters that would end or hide a line.
func appendName(buf []byte, name string) []byte {
	for i := range min(len(name), maxName) {
		c := name[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		buf = append(buf, c)
	}
	return buf
}

// labels holds the text before and after the port of each line.
type labels struct {
	before []byte   // [8·LID] "0x0020 " and a filler
	after  []string // [LID] the comment and line end; nil in the lean form
}

func newLabels(t *Tables, owners []Owner) *labels {
	lids := 0
	for i := range t.Switches {
		lids = max(lids, len(t.Switches[i].Out))
	}
	l := &labels{before: make([]byte, 8*lids)}
	const hex = "0123456789abcdef"
	for lid := range lids {
		copy(l.before[8*lid:], []byte{'0', 'x', hex[lid>>12], hex[lid>>8&15], hex[lid>>4&15], hex[lid&15], ' ', ' '})
	}
	if owners == nil {
		return l
	}
	l.after = make([]string, lids)
	for i := range l.after {
		l.after[i] = " # unknown node and type\n"
	}
	for _, o := range owners {
		text := fmt.Appendf(nil, " # %s portguid %s: '", kindName(o.Kind), o.GUID)
		text = append(appendName(text, o.Name), "'\n"...)
		label := string(text)
		for lid := int(o.LID); lid < min(lids, int(o.LID)+1<<o.LMC); lid++ {
			l.after[lid] = label
		}
	}
	return l
}

// kindName returns the kind as subnet tools print it.
func kindName(k topology.Kind) string {
	switch k {
	case topology.Adapter:
		return "Channel Adapter"
	case topology.Switch:
		return "Switch"
	case topology.Router:
		return "Router"
	}
	return "unknown"
}

// portText holds "001\n" for every port.
var portText = func() (text [256]uint32) {
	for p := range text {
		text[p] = binary.LittleEndian.Uint32([]byte{'0' + byte(p/100), '0' + byte(p/10%10), '0' + byte(p%10), '\n'})
	}
	return text
}()

// appendEntries appends one line for every entry.
func (s *Table) appendEntries(buf []byte, l *labels) []byte {
	if l.after == nil {
		return s.appendLean(buf, l.before)
	}
	for lid, port := range s.Out {
		if port == NoPath {
			continue
		}
		buf = append(buf, l.before[8*lid:8*lid+7]...)
		buf = binary.LittleEndian.AppendUint32(buf, portText[port])
		buf = append(buf[:len(buf)-1], l.after[lid]...)
	}
	return buf
}

// appendLean appends the lines "0x0020 001" by two stores each, the second over
// the filler of the first.
func (s *Table) appendLean(buf, before []byte) []byte {
	const line = len("0x0020 001\n")
	at := len(buf)
	entries := len(s.Out) - bytes.Count(s.Out, []byte{NoPath})
	buf = append(buf, make([]byte, line*entries)...)
	for lid, port := range s.Out {
		if port == NoPath {
			continue
		}
		to := buf[at : at+line : at+line]
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(before[8*lid:]))
		binary.LittleEndian.PutUint32(to[7:], portText[port])
		at += line
	}
	return buf[:at]
}

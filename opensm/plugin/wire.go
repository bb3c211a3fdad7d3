package plugin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
)

// The protocol of docs/opensm-plugin.md.
const (
	magic      = "forsosm\n"
	version    = 2
	headerSize = 16
	maxBody    = 64 << 20
)

// kind is the type of a message.
type kind uint8

const (
	kindHello      kind = 0x01
	kindState      kind = 0x02
	kindSweep      kind = 0x03
	kindFabric     kind = 0x04
	kindDiscovered kind = 0x05
	kindTrap       kind = 0x06
	kindRequest    kind = 0x07
	kindOutcome    kind = 0x08
	kindRouted     kind = 0x09
	kindUp         kind = 0x0A
	kindWelcome    kind = 0x81
	kindTables     kind = 0x82
	kindNone       kind = 0x83
	kindResweep    kind = 0x84
)

// frame is a message as it comes.
type frame struct {
	kind kind
	at   time.Time
	body []byte
}

// errLength means that the length of a message does not match its fields.
var errLength = errors.New("its length is not that of its fields")

// readFrame reads one message. Memory is taken as bytes come, not as the header
// promises them.
func readFrame(r io.Reader) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	length := int(binary.LittleEndian.Uint32(header[:]))
	if length > maxBody {
		return frame{}, fmt.Errorf("a message of type %#x claims %d bytes: at most %d are possible", header[4], length, maxBody)
	}
	f := frame{kind: kind(header[4]), at: time.Unix(0, int64(binary.LittleEndian.Uint64(header[8:])))}
	const step = 1 << 20
	for len(f.body) < length {
		n := min(step, length-len(f.body))
		f.body = append(f.body, make([]byte, n)...)
		if _, err := io.ReadFull(r, f.body[len(f.body)-n:]); err != nil {
			if errors.Is(err, io.EOF) { // the end of the stream cuts a message
				err = io.ErrUnexpectedEOF
			}
			return frame{}, err
		}
	}
	return f, nil
}

// newFrame begins a message; finish ends it.
func newFrame(k kind, at time.Time) []byte {
	buf := []byte{0, 0, 0, 0, byte(k), 0, 0, 0}
	return binary.LittleEndian.AppendUint64(buf, uint64(at.UnixNano()))
}

// finish writes the length of the message that fills buf.
func finish(buf []byte) []byte {
	binary.LittleEndian.PutUint32(buf, uint32(len(buf)-headerSize))
	return buf
}

// appendText appends a text, truncated to the range of its length field.
func appendText(buf []byte, text string) []byte {
	text = text[:min(len(text), 1<<16-1)]
	return append(binary.LittleEndian.AppendUint16(buf, uint16(len(text))), text...)
}

// cursor takes a body apart. Past its end it gives zeros and notes that.
type cursor struct {
	rest  []byte
	short bool
}

func (c *cursor) bytes(n int) []byte {
	if n > len(c.rest) {
		c.rest, c.short = nil, true
		return make([]byte, n)
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) u8() uint8     { return c.bytes(1)[0] }
func (c *cursor) u16() uint16   { return binary.LittleEndian.Uint16(c.bytes(2)) }
func (c *cursor) u32() uint32   { return binary.LittleEndian.Uint32(c.bytes(4)) }
func (c *cursor) u64() uint64   { return binary.LittleEndian.Uint64(c.bytes(8)) }
func (c *cursor) guid() ib.GUID { return ib.GUID(c.u64()) }
func (c *cursor) text() string  { return string(c.bytes(int(c.u16()))) }

// end returns an error unless the body was read completely and not beyond.
func (c *cursor) end() error {
	if c.short || len(c.rest) > 0 {
		return errLength
	}
	return nil
}

// readHello reads the first message of a connection.
func readHello(f frame) (Peer, State, error) {
	if f.kind != kindHello {
		return Peer{}, 0, fmt.Errorf("the first message has type %#x: hello was expected", uint8(f.kind))
	}
	c := cursor{rest: f.body}
	if m := string(c.bytes(len(magic))); m != magic {
		return Peer{}, 0, fmt.Errorf("it begins with %q: %q was expected", m, magic)
	}
	if v := c.u16(); v != version {
		return Peer{}, 0, fmt.Errorf("the plugin speaks version %d of the protocol, forsd version %d: install both from one release", v, version)
	}
	state := State(c.u8())
	c.bytes(1)
	p := Peer{PID: int(c.u32()), Deadline: time.Duration(c.u32()) * time.Microsecond}
	c.bytes(4)
	p.Port, p.Version = c.guid(), c.text()
	if err := c.end(); err != nil {
		return Peer{}, 0, fmt.Errorf("read hello: %w", err)
	}
	return p, state, checkState(state)
}

func checkState(s State) error {
	if s > Master {
		return fmt.Errorf("state %d: at most %d is possible", s, Master)
	}
	return nil
}

// readTrap reads a trap.
func readTrap(f frame) (Trap, error) {
	c := cursor{rest: f.body}
	t := Trap{At: f.at, Number: c.u16(), LID: ib.LID(c.u16()), Port: c.u8()}
	c.bytes(3)
	t.GUID = c.guid()
	return t, c.end()
}

// readOutcome parses the message about the use of an answer.
func readOutcome(f frame) (Outcome, error) {
	c := cursor{rest: f.body}
	o := Outcome{At: f.at, Request: c.u64(), Result: Result(c.u8()), Text: c.text()}
	if o.Result > Wrong {
		return o, fmt.Errorf("result %d: at most %d is possible", o.Result, Wrong)
	}
	return o, c.end()
}

// readRouted reads that routing is done.
func readRouted(f frame) (RoutingDone, error) {
	c := cursor{rest: f.body}
	why, own := c.u8(), c.u8()
	r := RoutingDone{At: f.at, Reroute: why == 2, Own: own == 1, Engine: c.text()}
	if why != 1 && why != 2 || own > 1 {
		return r, fmt.Errorf("reason %d, own %d", why, own)
	}
	return r, c.end()
}

// request is a request for tables as it comes.
type request struct {
	number, generation, held uint64
	left                     time.Duration
	maxLID                   ib.LID
}

func readRequest(f frame) (request, error) {
	c := cursor{rest: f.body}
	r := request{number: c.u64(), generation: c.u64(), held: c.u64(), left: time.Duration(c.u32()) * time.Microsecond}
	r.maxLID = ib.LID(c.u16())
	c.bytes(2)
	return r, c.end()
}

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
	return slices.EqualFunc(a.Switches, b.Switches, func(x, y lft.Table) bool { return x.GUID == y.GUID })
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

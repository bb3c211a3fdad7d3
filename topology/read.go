package topology

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// ErrIncomplete is wrapped by the readers' errors if a file ends too early: it is still
// being written, or was truncated. Reading again later may succeed.
var ErrIncomplete = errors.New("the file is incomplete: it is still being written or was cut off")

// Source is the kind of file that a fabric was read from.
type Source uint8

// The kinds of files that Read recognises.
const (
	SourceUnknown       Source = iota
	SourceIbnetdiscover        // the output of ibnetdiscover: has the LMC, not the manager
	SourceSubnetLst            // OpenSM's opensm-subnet.lst: has the manager, not the LMC; ibdiagnet2.lst: has neither
	SourceDBCSV                // ibdiagnet2.db_csv: has both
	SourceTopo                 // a topology file of ibdm: has neither; GUIDs and LIDs are made up
)

// String returns the kind's name as operators know it.
func (s Source) String() string {
	switch s {
	case SourceIbnetdiscover:
		return "ibnetdiscover"
	case SourceSubnetLst:
		return "opensm-subnet.lst"
	case SourceDBCSV:
		return "ibdiagnet2.db_csv"
	case SourceTopo:
		return "topology file of ibdm"
	}
	return "unknown file"
}

// Read reads a fabric from the output of ibnetdiscover, an opensm-subnet.lst, a file of
// ibdiagnet or a topology file of ibdm, recognised by the first line that is of one of
// them.
func Read(data []byte) (*Fabric, Source, error) {
	if len(data) == 0 {
		return nil, SourceUnknown, fmt.Errorf("read topology: the file is empty: %w", ErrIncomplete)
	}
	kind, line, text := recognise(data)
	readers := map[Source]func([]byte) (*Fabric, error){SourceIbnetdiscover: ReadIbnetdiscover, SourceSubnetLst: ReadSubnetLst, SourceDBCSV: ReadDBCSV, SourceTopo: ReadTopo}
	if read := readers[kind]; read != nil {
		f, err := read(data)
		return f, kind, err
	}
	const expected = "expected the output of ibnetdiscover or an opensm-subnet.lst, ibdiagnet2.lst, ibdiagnet2.db_csv or .topo file"
	if text == nil {
		return nil, kind, fmt.Errorf("read topology: no line but comments: %s", expected)
	}
	return nil, kind, fmt.Errorf("read topology line %d: %s, not %s", line, expected, quote(text))
}

// recognise finds a file's kind by the first line that is of one. For an unknown file it
// returns the first line that is neither empty nor a comment, with its number.
func recognise(data []byte) (kind Source, number int, line []byte) {
	at := 0
	for more := true; more; {
		var text []byte
		at++
		text, data, more = bytes.Cut(data, newline)
		switch trimmed := bytes.TrimSpace(text); {
		case bytes.HasPrefix(trimmed, []byte("# Topology file: generated on ")):
			return SourceIbnetdiscover, at, text
		case len(trimmed) == 0 || trimmed[0] == '#':
			continue
		case bytes.HasPrefix(text, []byte("{ ")):
			return SourceSubnetLst, at, text
		case bytes.HasPrefix(text, sectionStart):
			return SourceDBCSV, at, text
		case topoCable.Match(trimmed):
			return SourceTopo, at, text
		case lineKind(text) > silentLine:
			return SourceIbnetdiscover, at, text
		}
		if line == nil {
			number, line = at, text
		}
	}
	return SourceUnknown, number, line
}

var (
	newline        = []byte("\n")
	carriageReturn = []byte("\r")
)

// quote prints a line of a file in an error, shortened and made printable.
func quote(line []byte) string {
	const longest = 60
	if len(line) > longest {
		return fmt.Sprintf("%#q…", line[:longest])
	}
	return fmt.Sprintf("%#q", line)
}

// cursor walks over one line of a file. The first unexpected text stops it for good: rest
// stays there, and want describes what was expected.
type cursor struct {
	rest []byte
	want string
}

func (c *cursor) ok() bool { return c.want == "" }

func (c *cursor) stop(want string) {
	if c.want == "" {
		c.want = want
	}
}

// err returns an error that says where on line the cursor stopped, and why.
func (c *cursor) err(line []byte) error {
	if len(c.rest) == 0 {
		return fmt.Errorf("expected %s at the end of %s", c.want, quote(line))
	}
	return fmt.Errorf("expected %s at column %d, before %s", c.want, len(line)-len(c.rest)+1, quote(c.rest))
}

// has steps over s if it is next, and reports whether it was.
func (c *cursor) has(s string) bool {
	if !c.ok() || len(c.rest) < len(s) || string(c.rest[:len(s)]) != s {
		return false
	}
	c.rest = c.rest[len(s):]
	return true
}

// lit steps over s, which must be next.
func (c *cursor) lit(s string) {
	if !c.has(s) && c.ok() {
		c.stop(strconv.Quote(s))
	}
}

// spaces steps over spaces and tabs.
func (c *cursor) spaces() {
	for c.ok() && len(c.rest) > 0 && (c.rest[0] == ' ' || c.rest[0] == '\t') {
		c.rest = c.rest[1:]
	}
}

// hex reads a hexadecimal number of at most digits digits, without 0x.
func (c *cursor) hex(digits int, what string) uint64 {
	if !c.ok() {
		return 0
	}
	var v uint64
	n := 0
	for n < len(c.rest) && n <= digits {
		d := hexDigit(c.rest[n])
		if d > 15 {
			break
		}
		v = v<<4 | uint64(d)
		n++
	}
	if n == 0 || n > digits {
		c.stop(what)
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// decimal reads a decimal number from 0 to limit.
func (c *cursor) decimal(limit int, what string) int {
	if !c.ok() {
		return 0
	}
	v, n := 0, 0
	for n < len(c.rest) && c.rest[n] >= '0' && c.rest[n] <= '9' && v <= limit {
		v = 10*v + int(c.rest[n]-'0')
		n++
	}
	if n == 0 || v > limit {
		c.stop(what)
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func hexDigit(b byte) byte {
	switch {
	case b >= '0' && b <= '9':
		return b - '0'
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10
	}
	return 0xFF
}

// newPorts gives a node its ports, 0 to count, none of them with a cable. It
// cuts them from *slab, which it refills, so that a fabric costs few
// allocations.
func newPorts(slab *[]Port, count int) []Port {
	const refill = 2048
	n := count + 1
	if len(*slab) < n {
		*slab = make([]Port, max(refill, n))
	}
	ports := (*slab)[:n:n]
	*slab = (*slab)[n:]
	for i := range ports {
		ports[i].Peer = None
	}
	return ports
}

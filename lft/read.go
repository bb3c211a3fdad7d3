package lft

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
)

// maxLine is the length in bytes up to which OpenSM reads a line in one piece.
const maxLine = 1000

// Read reads tables from r; see ReadBytes.
func Read(r io.Reader) (*Tables, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	return ReadBytes(data)
}

// ReadBytes parses the output of Write, OpenSM (opensm-lfts.dump) and dump_fts, with or
// without -n. Empty input is tables without a switch. Errors begin with the line number. A
// truncated text is rejected if its form shows it: the output of Write counts its entries,
// a section of dump_fts or OpenSM ends in a line "… lids dumped", and every line ends in a
// line feed.
func ReadBytes(data []byte) (*Tables, error) {
	r := &reader{rest: data, seen: map[ib.GUID]int{}, entries: -1, out: bytes.Repeat([]byte{NoPath}, int(ib.MaxUnicastLID)+1)}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("read tables: line %d: %w", r.line, err)
	}
	return r.assemble(), nil
}

// reader reads a dump line by line. A section is the lines under one header.
type reader struct {
	rest []byte
	line int // number of the current line

	done     []Table
	seen     map[ib.GUID]int // line of the switch's header
	switches int             // as counted in the first comment
	entries  int             // likewise, −1 without one
	found    int             // entries so far
	trailers int             // sections that ended in a trailer

	open    bool // inside a section
	owed    bool // the section's form requires a trailer
	current Table
	header  int     // line of the section's header
	count   int     // entries of the section
	top     int     // largest LID of the section
	out     []uint8 // [LID]
}

// Values of the hexadecimal digits, 0xFF for all other bytes.
var nibble = func() (v [256]uint8) {
	for i := range v {
		v[i] = 0xFF
	}
	for i := range 10 {
		v['0'+i] = uint8(i)
	}
	for i := range 6 {
		v['a'+i], v['A'+i] = uint8(10+i), uint8(10+i)
	}
	return v
}()

func (r *reader) read() error {
	for len(r.rest) > 0 {
		r.line++
		if r.open && r.quick() {
			continue
		}
		end := bytes.IndexByte(r.rest, '\n')
		if end < 0 {
			return fmt.Errorf("the text ends within a line: it was cut off")
		}
		line := r.rest[:end]
		r.rest = r.rest[end+1:]
		if err := r.parse(line); err != nil {
			return err
		}
	}
	if err := r.close(false); err != nil {
		return err
	}
	if r.trailers > 0 && r.trailers < len(r.done) {
		return fmt.Errorf("only %d of %d switches end in a line \"… lids dumped\": the text was cut off", r.trailers, len(r.done))
	}
	if r.entries >= 0 && (r.switches != len(r.done) || r.entries != r.found) {
		return fmt.Errorf("the text ends after %d switches and %d entries, and its first line counts %d and %d: it was cut off",
			len(r.done), r.found, r.switches, r.entries)
	}
	return nil
}

// quick reads a line that begins with an entry such as "0x0020 001", by far the most
// frequent. It leaves every other line, and every erroneous line, to parse.
func (r *reader) quick() bool {
	const entry = len("0x0020 001")
	if len(r.rest) <= entry {
		return false
	}
	s := r.rest[: entry+1 : entry+1]
	if s[0] != '0' || s[1] != 'x' || s[6] != ' ' || s[10] != '\n' && s[10] != ' ' {
		return false
	}
	a, b, c, d := nibble[s[2]], nibble[s[3]], nibble[s[4]], nibble[s[5]]
	x, y, z := s[7]-'0', s[8]-'0', s[9]-'0'
	if a|b|c|d > 15 || x > 9 || y > 9 || z > 9 {
		return false
	}
	lid := int(a)<<12 | int(b)<<8 | int(c)<<4 | int(d)
	port := int(x)*100 + int(y)*10 + int(z)
	if lid == 0 || lid >= len(r.out) || r.out[lid] != NoPath || port >= int(NoPath) {
		return false
	}
	end := entry
	if s[entry] == ' ' {
		end += bytes.IndexByte(r.rest[entry:], '\n')
		if end < entry || end > maxLine {
			return false
		}
	}
	r.enter(lid, uint8(port))
	r.rest = r.rest[end+1:]
	return true
}

func (r *reader) enter(lid int, port uint8) {
	r.out[lid] = port
	r.top = max(r.top, lid)
	r.count++
}

func (r *reader) parse(line []byte) error {
	if len(line) > maxLine {
		return fmt.Errorf("the line has %d bytes: OpenSM reads %d", len(line), maxLine)
	}
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
	case line[0] == '#':
		return r.comment(string(line))
	case bytes.HasPrefix(line, []byte("Unicast lids")):
		return r.start(string(line))
	case bytes.HasPrefix(line, []byte("0x")):
		return r.entry(line)
	case bytes.HasPrefix(line, []byte("Multicast mlids")):
		return fmt.Errorf("this is a dump of multicast tables: unicast tables are wanted")
	case bytes.HasSuffix(line, []byte("lids dumped")):
		return r.end(string(line))
	case r.open && r.count == 0 && isCaption(line):
		r.owed = true
	default:
		return fmt.Errorf("%.60q is not a part of a table dump: want what dump_fts -n prints, or a table file of forsd", line)
	}
	return nil
}

// isCaption reports whether the line is one of the two that dump_fts prints above the
// entries of a switch.
func isCaption(line []byte) bool {
	f := bytes.Fields(line)
	return len(f) == 3 && string(f[0]) == "Lid" && string(f[1]) == "Out" && string(f[2]) == "Destination" ||
		len(f) == 2 && string(f[0]) == "Port" && string(f[1]) == "Info"
}

// comment parses the counts of Write and ignores any other comment.
func (r *reader) comment(line string) error {
	var switches, entries int
	if n, _ := fmt.Sscanf(line, countFormat, &switches, &entries); n != 2 {
		return nil
	}
	if r.line != 1 {
		return fmt.Errorf("a second file begins here: tables are read from one")
	}
	if switches < 0 || entries < 0 {
		return fmt.Errorf("%d switches and %d entries are no counts", switches, entries)
	}
	r.switches, r.entries = switches, entries
	return nil
}

// end parses "N valid lids dumped", and OpenSM's "N lids dumped", where N is the last LID
// instead of a count.
func (r *reader) end(line string) error {
	if !r.open {
		return fmt.Errorf("the end of a table without its beginning")
	}
	if text, ok := strings.CutSuffix(line, " valid lids dumped"); ok {
		if n, err := strconv.Atoi(text); err != nil || n != r.count {
			return fmt.Errorf("%d entries since line %d, and %q announces %s: the text is not whole", r.count, r.header, line, text)
		}
	}
	r.trailers++
	return r.close(true)
}

// close finishes the section.
func (r *reader) close(trailer bool) error {
	if !r.open {
		return nil
	}
	if r.owed && !trailer {
		return fmt.Errorf("the table of switch %s (line %d) has no line \"… lids dumped\": the text was cut off", r.current.label(), r.header)
	}
	section := r.out[:r.top+1]
	r.current.Out = bytes.Clone(section)
	for i := range section {
		section[i] = NoPath
	}
	r.done = append(r.done, r.current)
	r.found += r.count
	r.open, r.owed, r.count, r.top = false, false, 0, 0
	return nil
}

// start reads the header of a switch, such as
//
//	Unicast lids [0x1-0x2fff] of switch Lid 64 guid 0x0000000000200000 ('Leaf000'):
//	Unicast lids [0-12735] of switch Lid 64 guid 0x0000000000200000 ('Leaf000'):
//	Unicast lids [0x0-0x31df] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000200000 (Leaf000):
//
// where names can hold anything. The second form is OpenSM's and the third that
// of dump_fts, and both end a table in a trailer.
func (r *reader) start(line string) error {
	if err := r.close(false); err != nil {
		return err
	}
	head, tail, ok := strings.Cut(line, " guid 0x")
	if !ok {
		return fmt.Errorf("a switch without its guid")
	}
	digits := 0
	for digits < len(tail) && nibble[tail[digits]] < 16 {
		digits++
	}
	guid, err := strconv.ParseUint(tail[:digits], 16, 64)
	if err != nil || digits == len(tail) || tail[digits] != ' ' {
		return fmt.Errorf("%.30q is not the guid of a switch", tail)
	}
	r.current = Table{GUID: ib.GUID(guid), Name: string(appendName(nil, name(tail[digits:])))}
	if before, dup := r.seen[r.current.GUID]; dup {
		return fmt.Errorf("switch %s appears again: its table begins on line %d", r.current.GUID, before)
	}
	r.seen[r.current.GUID] = r.line
	span, at, _ := strings.Cut(head, " of switch ")
	if _, lid, ok := strings.Cut(at, "Lid "); ok {
		lid, _, _ = strings.Cut(lid, " ")
		v, err := strconv.ParseUint(lid, 10, 16)
		if err != nil || v > uint64(ib.MaxUnicastLID) {
			return fmt.Errorf("%.20q is not the LID of a switch", lid)
		}
		r.current.LID = ib.LID(v)
	}
	_, span, ranged := strings.Cut(span, "[")
	r.owed = ranged && !strings.HasPrefix(span, "0x") || strings.HasPrefix(at, "DR path")
	r.open, r.header = true, r.line
	return nil
}

// name returns the description at the end of a header: ('Leaf000'): or (Leaf000):.
func name(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < 3 || s[0] != '(' || !strings.HasSuffix(s, "):") {
		return ""
	}
	s = s[1 : len(s)-2]
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		s = s[1 : len(s)-1]
	}
	return s
}

// entry parses a line of a LID and a port, and ignores the rest of the line.
func (r *reader) entry(line []byte) error {
	if !r.open {
		return fmt.Errorf("an entry without a switch above it")
	}
	text, rest := word(line[2:])
	lid, err := strconv.ParseUint(string(text), 16, 16)
	if err != nil || lid > uint64(ib.MaxUnicastLID) {
		return fmt.Errorf("0x%.20s is not a unicast LID: they end at 0x%04x", text, ib.MaxUnicastLID)
	}
	text, _ = word(rest)
	port, err := strconv.ParseUint(string(text), 10, 16)
	if err != nil {
		return fmt.Errorf("%.20q is not a port", text)
	}
	switch {
	case port >= uint64(NoPath):
		return fmt.Errorf("port %d is not a port: leave the line out to say unreachable", port)
	case r.out[lid] != NoPath:
		return fmt.Errorf("LID 0x%04x appears again under switch %s", lid, r.current.label())
	case lid == 0:
		// LID 0 is reserved; its entry means nothing.
		r.count++
		r.found--
		return nil
	}
	r.enter(int(lid), uint8(port))
	return nil
}

// word splits off the first word.
func word(s []byte) (first, rest []byte) {
	s = bytes.TrimLeft(s, " \t")
	i := bytes.IndexAny(s, " \t")
	if i < 0 {
		return s, nil
	}
	return s[:i], s[i:]
}

// assemble sorts the switches and copies their tables into one piece of memory.
func (r *reader) assemble() *Tables {
	t := &Tables{Switches: r.done}
	sort.Slice(t.Switches, func(a, b int) bool { return t.Switches[a].GUID < t.Switches[b].GUID })
	length := 0
	for i := range t.Switches {
		length = max(length, len(t.Switches[i].Out))
	}
	out := bytes.Repeat([]byte{NoPath}, len(t.Switches)*length)
	for i := range t.Switches {
		row := out[i*length : (i+1)*length : (i+1)*length]
		copy(row, t.Switches[i].Out)
		t.Switches[i].Out = row
	}
	return t
}

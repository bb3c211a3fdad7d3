package phasetable

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/forsd/forsd/ib"
)

// CSVHeader is the first line of phases.csv.
const CSVHeader = "phase,src_guid,dst_guid,lane,dlid"

// Row is a line of phases.csv: one transfer.
type Row struct {
	Phase    int
	Src, Dst ib.GUID // port GUIDs
	Lane     int     // Local for same-leaf transfers
	DLID     ib.LID
}

// WriteCSV writes the table's transfers as phases.csv: ordered by phase, then by
// the source's GUID. The order does not depend on how servers are numbered.
func WriteCSV(w io.Writer, t *Table) error {
	if _, err := t.shape(); err != nil {
		return fmt.Errorf("write phases: %w", err)
	}
	const flushAt, longest = 1 << 16, 80
	n := len(t.Servers)
	order, guids := make([]int, n), make([]byte, 0, 19*n)
	for i := range order {
		order[i] = i
		guids = append(appendGUID(guids, t.Servers[i].GUID), ',')
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.Servers[a].GUID, t.Servers[b].GUID) })
	buf := append(make([]byte, 0, flushAt+longest), CSVHeader+"\n"...)
	for p := range t.Phases {
		for _, s := range order {
			i := p*n + s
			d := int(t.To[i])
			if d == Idle {
				continue
			}
			if uint(d) >= uint(n) {
				return fmt.Errorf("write phases: phase %d, server %d sends to server %d: there are %d", p, s, d, n)
			}
			buf = append(strconv.AppendInt(buf, int64(p), 10), ',')
			buf = append(append(buf, guids[19*s:19*s+19]...), guids[19*d:19*d+19]...)
			buf = append(strconv.AppendInt(buf, int64(t.Lane[i]), 10), ',')
			buf = append(strconv.AppendUint(buf, uint64(t.DLID[i]), 10), '\n')
			if len(buf) >= flushAt {
				if _, err := w.Write(buf); err != nil {
					return fmt.Errorf("write phases: %w", err)
				}
				buf = buf[:0]
			}
		}
	}
	if _, err := w.Write(buf); err != nil {
		return fmt.Errorf("write phases: %w", err)
	}
	return nil
}

// appendGUID appends the 18 characters of a GUID.
func appendGUID(buf []byte, g ib.GUID) []byte {
	const digits = "0123456789abcdef"
	buf = append(buf, "0x"...)
	for shift := 60; shift >= 0; shift -= 4 {
		buf = append(buf, digits[g>>shift&15])
	}
	return buf
}

// ReadCSV parses phases.csv. It checks the form of every line, and that the last one is
// complete; errors contain name and line. The lines are not checked against each other
// (order, duplicate senders); see package verify.
func ReadCSV(r io.Reader, name string) ([]Row, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	var rows []Row
	if known, ok := r.(interface{ Len() int }); ok { // of bytes, as bytes.Reader has it
		const shortest = len("0,0x0000000000000001,0x0000000000000002,1,1\n")
		rows = make([]Row, 0, known.Len()/shortest)
	}
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && number > 1:
			return rows, nil
		case errors.Is(err, io.EOF):
			err = errors.New("the file ends within the line")
		case errors.Is(err, bufio.ErrBufferFull):
			err = errors.New("the line is too long")
		case err == nil:
			line = bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
			if number > 1 {
				var row Row
				row, err = parseLine(line)
				rows = append(rows, row)
			} else if string(line) != CSVHeader {
				err = fmt.Errorf("header %.80q: want %q", line, CSVHeader)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read %s line %d: %w", name, number, err)
		}
	}
}

// parseLine reads one transfer.
func parseLine(line []byte) (row Row, err error) {
	fields := [5][]byte{}
	for i := range fields {
		field, rest, more := bytes.Cut(line, []byte{','})
		if more != (i < len(fields)-1) {
			return row, fmt.Errorf("want the 5 fields %s", CSVHeader)
		}
		fields[i], line = field, rest
	}
	if row.Phase, err = parseInt(fields[0], "phase", 0, math.MaxInt32); err != nil {
		return row, err
	}
	if row.Src, err = parseGUID(fields[1], "src_guid"); err != nil {
		return row, err
	}
	if row.Dst, err = parseGUID(fields[2], "dst_guid"); err != nil {
		return row, err
	}
	row.Lane = Local
	if string(fields[3]) != "-1" {
		if row.Lane, err = parseInt(fields[3], "lane", 0, maxLanes-1); err != nil {
			return row, err
		}
	}
	lid, err := parseInt(fields[4], "dlid", 1, int(ib.MaxUnicastLID))
	row.DLID = ib.LID(lid)
	return row, err
}

// parseInt reads a decimal without sign.
func parseInt(s []byte, field string, least, most int) (int, error) {
	n := 0
	ok := len(s) > 0
	for _, c := range s {
		if c < '0' || c > '9' || n > most {
			ok = false
			break
		}
		n = 10*n + int(c-'0')
	}
	if !ok || n < least || n > most {
		return 0, fmt.Errorf("%s %.40q: want a number from %d to %d", field, s, least, most)
	}
	return n, nil
}

// parseGUID reads 0x and 16 hexadecimal digits.
func parseGUID(s []byte, field string) (ib.GUID, error) {
	var g ib.GUID
	ok := len(s) == 18 && s[0] == '0' && s[1] == 'x'
	for i := 2; ok && i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			ok = false
		}
		g = g<<4 | ib.GUID(c)
	}
	if !ok || g == 0 {
		return 0, fmt.Errorf("%s %.40q: want 0x and 16 hexadecimal digits, not all of them 0", field, s)
	}
	return g, nil
}

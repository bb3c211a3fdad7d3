package matrix

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// parseCSV reads one row per line.
func parseCSV(b *bufio.Reader, o Options) (*Dense, error) {
	comma := separator(b)
	r := csv.NewReader(&lines{r: b, most: maxNumber * (o.maxSide() + 1000)})
	r.Comma, r.Comment, r.FieldsPerRecord, r.ReuseRecord = comma, '#', -1, true
	r.TrimLeadingSpace = comma == ' ' // a tab at the beginning follows an empty field
	m, row := &Dense{}, []float64(nil)
	first, header, named := true, 0, false // header is the number of its fields
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, err // the error names the line
		}
		if n := len(fields) - 1; n > 0 && (comma == ' ' || comma == '\t') && fields[n] == "" {
			fields = fields[:n] // blanks at the end
		}
		if first {
			// An empty first field is above the names, or numbers, of the rows.
			first, named = false, len(fields) > 1 && strings.TrimSpace(fields[0]) == ""
			if named || !slices.ContainsFunc(fields, isNumber) {
				header = len(fields)
				continue
			}
		}
		named = named || header > 0 && m.Rows == 0 && !isNumber(fields[0])
		if header > 0 && m.Rows == 0 && len(fields) != header {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: row 1 has %d columns and the header %d", line, len(fields), header)
		}
		row = row[:0]
		for i, field := range fields {
			if named && i == 0 {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
			if err != nil {
				line, _ := r.FieldPos(i)
				return nil, fmt.Errorf("line %d, column %d: %q is not a number", line, i+1, field)
			}
			if v >= maxInteger { // 2^53 + 1 is read as 2^53
				if exact, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64); err == nil {
					m.keep(len(m.Data)+len(row), exact, o)
				}
			}
			row = append(row, v)
		}
		if err := m.append(row, o); err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// isNumber reports whether a field is a number, possibly out of range.
func isNumber(field string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// separator returns the field separator of the first line that is not a comment: the first
// of these that occurs.
func separator(b *bufio.Reader) rune {
	head, _ := b.Peek(b.Size())
	for line := range bytes.Lines(head) {
		if text := bytes.TrimSpace(line); len(text) == 0 || text[0] == '#' {
			continue
		}
		for _, c := range ",\t; " {
			if bytes.ContainsRune(line, c) {
				return c
			}
		}
		break
	}
	return ','
}

// maxNumber is the maximum number of bytes in a CSV line for each column, and for a thousand
// more: enough for comments.
const maxNumber = 64

// lines fails if a line is longer than most, so that a file without lines, such as a disk
// image, is not read into memory.
type lines struct {
	r          io.Reader
	most, line int // bytes; of the current line
}

// Read reads.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for rest := p[:n]; ; l.line = 0 {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			l.line += len(rest)
			break
		}
		rest = rest[end+1:]
	}
	if l.line > l.most {
		return n, fmt.Errorf("a line has more than %d bytes: want numbers apart by commas, a row a line", l.most)
	}
	return n, err
}

// parseJSON reads an array of rows, an object whose "matrix" is one, or lines.
func parseJSON(b *bufio.Reader, o Options) (*Dense, error) {
	read := parseValue
	if o.Lines != "" && areLines(b) {
		read = parseLines
	}
	d := json.NewDecoder(b)
	m, err := read(d, o)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the JSON ends too early: it was cut off")
	}
	if err != nil {
		return nil, err
	}
	if t, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%v follows the matrix: want nothing", t)
	}
	return m, nil
}

func parseValue(d *json.Decoder, o Options) (*Dense, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t == json.Delim('[') {
		return parseRows(d, o)
	}
	var m *Dense
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key != "matrix" || m != nil {
			return nil, fmt.Errorf("the object has a key %v: want \"matrix\" alone, once", key)
		}
		if t, err := d.Token(); err != nil {
			return nil, err
		} else if t != json.Delim('[') {
			return nil, fmt.Errorf("\"matrix\" is %v: want an array of rows", t)
		}
		if m, err = parseRows(d, o); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("the object has no \"matrix\": want an array of rows there")
	}
	return m, nil
}

// areLines reports whether JSON is not an array of rows, nor an object that begins with "matrix".
func areLines(b *bufio.Reader) bool {
	head, _ := b.Peek(b.Buffered())
	head = bytes.TrimSpace(head)
	inside := bytes.TrimSpace(head[1:])
	if head[0] == '[' {
		return len(inside) > 0 && inside[0] != '[' && inside[0] != ']'
	}
	return !bytes.HasPrefix(inside, []byte(`"matrix"`))
}

// parseLines reads a row a value, up to the end.
func parseLines(d *json.Decoder, o Options) (*Dense, error) {
	m := &Dense{}
	for d.More() {
		var row json.RawMessage
		if err := d.Decode(&row); err != nil {
			return nil, fmt.Errorf("row %d: %w", m.Rows+1, err)
		}
		if row[0] == '{' && o.Lines != "" {
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(row, &fields); err != nil {
				return nil, fmt.Errorf("row %d: %w", m.Rows+1, err)
			}
			if row = fields[o.Lines]; row == nil {
				return nil, fmt.Errorf("row %d is an object without %q: want a list of numbers there", m.Rows+1, o.Lines)
			}
		}
		if err := m.appendJSON(row, o); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// appendJSON adds a row.
func (m *Dense) appendJSON(raw json.RawMessage, o Options) error {
	// A null would be accepted as an empty row, or as 0.
	if bytes.Contains(raw, []byte("null")) {
		return fmt.Errorf("row %d has null in it: want numbers", m.Rows+1)
	}
	var row []float64
	if err := json.Unmarshal(raw, &row); err != nil {
		return fmt.Errorf("row %d: %w", m.Rows+1, err)
	}
	if o.Large && len(row) > 0 && slices.Max(row) >= maxInteger { // 2^53 + 1 is read as 2^53
		var exact []json.Number
		_ = json.Unmarshal(raw, &exact) // they are numbers
		for i, text := range exact {
			if v, err := text.Int64(); err == nil {
				m.keep(len(m.Data)+i, v, o)
			}
		}
	}
	return m.append(row, o)
}

// parseRows reads rows up to the end of their array. The beginning of the array has been read.
func parseRows(d *json.Decoder, o Options) (*Dense, error) {
	o.Lines = "" // rows are lists
	m, err := parseLines(d, o)
	if err == nil {
		_, err = d.Token()
	}
	return m, err
}

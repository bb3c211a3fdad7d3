// Package matrix parses demand and traffic matrices for the planners, as CSV, NPY or JSON,
// with errors that name the fault, its place and the remedy.
package matrix

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
)

// Dense is a matrix of finite, non-negative numbers.
type Dense struct {
	Rows, Cols int
	Data       []float64     // [row*Cols+column]
	Large      map[int]int64 // [row*Cols+column] exact entries above 2^53, if the options allow them
	Slices     int           // of an array of three dimensions, stacked in Rows; otherwise 0
}

// Options are requirements in addition to finite, non-negative numbers and at least one row and
// column.
type Options struct {
	Square  bool
	Integer bool   // whole numbers up to 2^53, which float64 holds exactly
	Large   bool   // with Integer: up to 2^60, if written as integers; not for Slices
	MaxSide int    // most rows and most columns; 0 means DefaultMaxSide
	MaxRows int    // most rows, if there may be more rows than columns
	None    bool   // −1 stands for nothing
	Slices  bool   // NPY may have three dimensions
	Column  bool   // NPY of one dimension is a column, not a row
	Lines   string // JSON may be lines: a row each, or an object that has it under this key
}

// DefaultMaxSide bounds the rows and columns of a matrix whose reader sets no
// other bound: 128 MiB of numbers.
const DefaultMaxSide = 4096

// float64 holds every whole number up to maxInteger, 2^53. maxLarge is 2^60.
const (
	maxInteger = 1 << 53
	maxLarge   = 1 << 60
)

// keep notes an entry above 2^53, if the options allow it.
func (m *Dense) keep(at int, v int64, o Options) {
	if o.Integer && o.Large && v > maxInteger && v <= maxLarge {
		if m.Large == nil {
			m.Large = map[int]int64{}
		}
		m.Large[at] = v
	}
}

func (o Options) maxSide() int {
	if o.MaxSide > 0 {
		return o.MaxSide
	}
	return DefaultMaxSide
}

// ReadFile reads a matrix from a file, see Read.
func ReadFile(path string, o Options) (*Dense, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, path, o)
}

// Read parses a matrix in the format that its first bytes show. NPY is an array of one or
// two dimensions of integers, reals or booleans in either byte order; one dimension means a
// matrix with one row, or column. JSON is an array of rows, [[0, 1], [2, 0]], an object
// whose "matrix" is one, or lines (see Options). Everything else is CSV: a row a line, fields
// separated by commas, tabs, semicolons or blanks; lines that begin with # are comments. A first line without
// numbers is a header; if there is one, rows may begin with a name. name is used in errors.
func Read(r io.Reader, name string, o Options) (*Dense, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	parse, err := recognise(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	m, err := parse(b, o)
	if err == nil {
		err = m.check(o)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return m, nil
}

// recognise selects the format's parser by the first bytes other than white space.
func recognise(b *bufio.Reader) (func(*bufio.Reader, Options) (*Dense, error), error) {
	if head, _ := b.Peek(len(npyMagic)); string(head) == npyMagic {
		return parseNPY, nil
	}
	if head, _ := b.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = b.Discard(len(byteOrderMark)) // it is still in the buffer
	}
	for i := 1; ; i++ {
		head, err := b.Peek(i)
		if len(head) < i {
			if errors.Is(err, io.EOF) {
				return nil, errors.New("there is nothing in it: want a matrix as CSV, NPY or JSON")
			}
			return nil, err
		}
		if c := head[i-1]; bytes.IndexByte([]byte(" \t\r\n"), c) < 0 {
			if c == '[' || c == '{' {
				return parseJSON, nil
			}
			return parseCSV, nil
		}
	}
}

// byteOrderMark precedes the text of some spreadsheets.
const byteOrderMark = "\xef\xbb\xbf"

// FromRows makes a matrix from rows, such as those of a request. It copies them.
func FromRows(rows [][]float64, o Options) (*Dense, error) {
	m := &Dense{}
	for _, row := range rows {
		if err := m.append(row, o); err != nil {
			return nil, err
		}
	}
	return m, m.check(o)
}

// append adds a row.
func (m *Dense) append(row []float64, o Options) error {
	switch {
	case m.Rows == o.maxRows():
		return tooLarge("rows", o.maxRows())
	case len(row) > o.maxSide():
		return tooLarge("columns", o.maxSide())
	case m.Rows > 0 && len(row) != m.Cols:
		return fmt.Errorf("row %d has %d columns and row 1 has %d: every row needs as many", m.Rows+1, len(row), m.Cols)
	}
	m.Rows, m.Cols = m.Rows+1, len(row)
	m.Data = append(m.Data, row...)
	return nil
}

func (o Options) maxRows() int { return max(o.MaxRows, o.maxSide()) }

func tooLarge(what string, most int) error {
	return fmt.Errorf("it has more than %d %s: that is the most that is taken", most, what)
}

// check checks the shape and every entry.
func (m *Dense) check(o Options) error {
	switch {
	case m.Rows == 0 || m.Cols == 0:
		return errors.New("the matrix is empty: want at least one row and one column")
	case m.Rows > o.maxRows():
		return tooLarge("rows", o.maxRows())
	case m.Cols > o.maxSide():
		return tooLarge("columns", o.maxSide())
	case o.Square && m.Rows != m.Cols:
		return fmt.Errorf("the matrix has %d rows and %d columns: want as many rows as columns", m.Rows, m.Cols)
	}
	for at, v := range m.Data {
		if _, large := m.Large[at]; large {
			continue
		}
		if why := objection(v, o); why != "" {
			return fmt.Errorf("row %d, column %d is %v: %s", at/m.Cols+1, at%m.Cols+1, v, why)
		}
	}
	return nil
}

// objection describes the fault of an entry, or returns "".
func objection(v float64, o Options) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "want a finite number"
	case v == -1 && o.None:
		return ""
	case v < 0:
		return "want zero or more"
	case o.Integer && v != math.Trunc(v):
		return "want a whole number"
	case o.Integer && v > maxInteger && o.Large:
		return "want at most 2^60, and above 2^53 an integer"
	case o.Integer && v > maxInteger:
		return "want at most 2^53"
	}
	return ""
}

// ReadInput reads a matrix from a file, or from standard input if path is -. It stops waiting
// for standard input when the program is interrupted.
func ReadInput(cmd *cobra.Command, path string, o Options) (*Dense, error) {
	defer command.Working(cmd, "reading "+path)()
	return command.UnlessStopped(cmd.Context(), func() (*Dense, error) {
		if path == "-" {
			return Read(cmd.InOrStdin(), "standard input", o)
		}
		return ReadFile(path, o)
	})
}

package chart

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Table is a set's numbers: a header and rows of as many fields.
type Table struct {
	Name string // of the file, for errors
	Rows [][]string
}

// NewTable is a table with a header and no rows.
func NewTable(columns ...string) *Table { return &Table{Rows: [][]string{columns}} }

// Add appends a row of numbers and strings. Real numbers get four decimals.
func (t *Table) Add(fields ...any) {
	row := make([]string, len(fields))
	for i, f := range fields {
		if v, fraction := f.(float64); fraction {
			row[i] = strconv.FormatFloat(v, 'f', 4, 64)
		} else {
			row[i] = fmt.Sprint(f)
		}
	}
	t.Rows = append(t.Rows, row)
}

// Encode is the table as CSV.
func (t *Table) Encode() []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.WriteAll(t.Rows); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// ReadTable reads a table written by Encode.
func ReadTable(path string) (*Table, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s is empty: want a header", path)
	}
	return &Table{path, rows}, nil
}

// Len is the number of rows below the header.
func (t *Table) Len() int { return len(t.Rows) - 1 }

// Row is row i, which counts from 0 below the header.
func (t *Table) Row(i int) *Row { return &Row{t: t, i: i} }

// Row reads the fields of a row by name, and keeps the first error.
type Row struct {
	Err error // the first that a field gave
	t   *Table
	i   int
}

// Text is the field in a column.
func (r *Row) Text(column string) string {
	c := slices.Index(r.t.Rows[0], column)
	if c < 0 {
		r.fail(fmt.Errorf("unknown column %q", column))
		return ""
	}
	return r.t.Rows[r.i+1][c]
}

// Number is the number in a column.
func (r *Row) Number(column string) float64 {
	v, err := strconv.ParseFloat(r.Text(column), 64)
	if err != nil {
		r.fail(fmt.Errorf("row %d, column %s: %w", r.i+1, column, err))
	}
	return v
}

func (r *Row) fail(err error) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%s: %w", r.t.Name, err)
	}
}

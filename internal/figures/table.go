package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// table is a set's numbers: a header and rows of as many fields.
type table struct {
	name string // of the file, for errors
	rows [][]string
}

func newTable(columns ...string) *table { return &table{rows: [][]string{columns}} }

// add appends a row of numbers and strings. Real numbers get four decimals.
func (t *table) add(fields ...any) {
	row := make([]string, len(fields))
	for i, f := range fields {
		if v, real := f.(float64); real {
			row[i] = strconv.FormatFloat(v, 'f', 4, 64)
		} else {
			row[i] = fmt.Sprint(f)
		}
	}
	t.rows = append(t.rows, row)
}

// encode is the table as CSV.
func (t *table) encode() []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.WriteAll(t.rows); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// readTable reads what encode wrote.
func readTable(path string) (*table, error) {
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
	return &table{path, rows}, nil
}

// len is the number of rows below the header.
func (t *table) len() int { return len(t.rows) - 1 }

// row is row i, which counts from 0 below the header.
func (t *table) row(i int) *row { return &row{t: t, i: i} }

// row reads the fields of a row by name, and keeps the first error.
type row struct {
	t   *table
	i   int
	err error
}

func (r *row) text(column string) string {
	c := slices.Index(r.t.rows[0], column)
	if c < 0 {
		r.fail(fmt.Errorf("there is no column %q", column))
		return ""
	}
	return r.t.rows[r.i+1][c]
}

func (r *row) number(column string) float64 {
	v, err := strconv.ParseFloat(r.text(column), 64)
	if err != nil {
		r.fail(fmt.Errorf("row %d, column %s: %w", r.i+1, column, err))
	}
	return v
}

func (r *row) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", r.t.name, err)
	}
}

package matrix_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/internal/matrix"
)

// npy returns an array in NumPy's format, version 1.
func npy(descr, order, shape string, entries ...any) string {
	var out bytes.Buffer
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", descr, order, shape)
	out.WriteString("\x93NUMPY\x01\x00")
	_ = binary.Write(&out, binary.LittleEndian, uint16(len(head)))
	out.WriteString(head)
	for _, e := range entries {
		if descr[0] == '>' {
			_ = binary.Write(&out, binary.BigEndian, e)
		} else {
			_ = binary.Write(&out, binary.LittleEndian, e)
		}
	}
	return out.String()
}

func TestRead(t *testing.T) {
	want := &matrix.Dense{Rows: 2, Cols: 3, Data: []float64{1, 2, 3, 4, 0.5, 6}}
	whole := &matrix.Dense{Rows: 2, Cols: 2, Data: []float64{1, 2, 3, 200}}
	for name, c := range map[string]struct {
		text string
		want *matrix.Dense
	}{
		"CSV":                 {"1,2,3\n4,.5,6\n", want},
		"CSV with blanks":     {"# GPUs\n\n 1, 2 ,3\r\n4,5e-1, 6", want},
		"CSV of spreadsheets": {"\xef\xbb\xbf1,2,3\n4,0.5,6\n", want},
		"CSV with a header":   {"a,b,c\n1,2,3\n4,.5,6\n", want},
		"CSV with names":      {"# of step 3\n,0,1,2\n0,1,2,3\n1,4,.5,6\n", want},
		"names of both":       {"from;a;b;c\nx;1;2;3\ny;4;.5;6\n", want},
		"tabs":                {"a\tb\tc\r\n1\t2\t3\r\n4\t.5\t6\r\n", want},
		"tabs with names":     {"\t0\t1\t2\n0\t1\t2\t3\n1\t4\t.5\t6\t\n", want},
		"a column with names": {"\tx\r\n0\t3\r\n1\t4\r\n", &matrix.Dense{Rows: 2, Cols: 1, Data: []float64{3, 4}}},
		"a column":            {" 3\n 4 \n", &matrix.Dense{Rows: 2, Cols: 1, Data: []float64{3, 4}}},
		"numpy.savetxt":       {"1.000000000000000000e+00 2.0e+00 3\n4 5e-1  6 \n", want},
		"JSON":                {" [[1, 2, 3], [4, 0.5, 6]]\n", want},
		"JSON object":         {`{"matrix": [[1,2,3],[4,0.5,6]]}`, want},
		"JSON lines":          {"[1, 2, 3]\n[4, 0.5, 6]\n", want},
		"JSON lines, objects": {"{\"layer\": 0, \"e\": [1, 2, 3]}\n{\"e\": [4, 0.5, 6]}", want},
		"NPY reals":           {npy("<f8", "False", "2, 3", []float64{1, 2, 3, 4, .5, 6}), want},
		"NPY big-endian":      {npy(">f4", "False", "2, 3", []float32{1, 2, 3, 4, .5, 6}), want},
		"NPY by columns":      {npy("<f8", "True", "2, 3", []float64{1, 4, 2, .5, 3, 6}), want},
		"NPY integers":        {npy("<i8", "False", "2, 2", []int64{1, 2, 3, 200}), whole},
		"NPY bytes":           {npy("|u1", "False", "2, 2", []uint8{1, 2, 3, 200}), whole},
		"NPY short":           {npy(">i2", "True", "2, 2", []int16{1, 3, 2, 200}), whole},
		"NPY halves":          {npy("<f2", "False", "2, 3", []uint16{0x3c00, 0x4000, 0x4200, 0x4400, 0x3800, 0x4600}), want},
		"NPY bfloat16":        {npy("<V2", "False", "2, 3", []uint16{0x3f80, 0x4000, 0x4040, 0x4080, 0x3f00, 0x40c0}), want},
		"NPY of version 3":    {version3(npy("<u4", "False", "2, 2", []uint32{1, 2, 3, 200})), whole},
		"NPY, one dimension":  {npy("|b1", "False", "2,", []bool{true, false}), &matrix.Dense{Rows: 1, Cols: 2, Data: []float64{1, 0}}},
	} {
		got, err := matrix.Read(strings.NewReader(c.text), name, matrix.Options{Lines: "e"})
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSlices checks that the slices of an array of three dimensions are stacked, for either order
// of the entries.
// TestLarge reads integers above 2^53 exactly, in each format.
func TestLarge(t *testing.T) {
	want := &matrix.Dense{Rows: 2, Cols: 2, Data: []float64{0, 1 << 60, 1 << 53, 3}, Large: map[int]int64{1: 1<<60 - 1, 2: 1<<53 + 1}}
	large := matrix.Options{Integer: true, Large: true}
	for name, text := range map[string]string{
		"CSV":          "0,1152921504606846975\n9007199254740993,3\n",
		"JSON":         "[[0,1152921504606846975],[9007199254740993,3]]",
		"NPY":          npy("<i8", "False", "2, 2", []int64{0, 1<<60 - 1, 1<<53 + 1, 3}),
		"NPY unsigned": npy(">u8", "True", "2, 2", []uint64{0, 1<<53 + 1, 1<<60 - 1, 3}),
	} {
		got, err := matrix.Read(strings.NewReader(text), name, large)
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for text, why := range map[string]string{
		"1,1152921504606846977\n":    "read m: row 1, column 2 is 1.152921504606847e+18: want at most 2^60, and above 2^53 an integer",
		"1,1e17\n":                   "read m: row 1, column 2 is 1e+17: want at most 2^60, and above 2^53 an integer",
		"[[1,1e17]]":                 "read m: row 1, column 2 is 1e+17: want at most 2^60, and above 2^53 an integer",
		"[[1,99999999999999999999]]": "read m: row 1, column 2 is 1e+20: want at most 2^60, and above 2^53 an integer",
		npy("<u8", "False", "1, 2", uint64(1), uint64(math.MaxUint64)): "read m: row 1, column 2 is more than 2^53: float64 does not hold it exactly",
	} {
		if _, err := matrix.Read(strings.NewReader(text), "m", large); err == nil || err.Error() != why {
			t.Errorf("%q: %v, want %s", text, err, why)
		}
	}
}

func TestSlices(t *testing.T) {
	want := &matrix.Dense{Rows: 4, Cols: 3, Slices: 2}
	byFirst := make([]int32, 12)
	for at := range 12 {
		want.Data = append(want.Data, float64(at))
		slice, row, column := at/6, at/3%2, at%3
		byFirst[slice+2*(row+2*column)] = int32(at)
	}
	for order, entries := range map[string][]int32{"False": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "True": byFirst} {
		got, err := matrix.Read(strings.NewReader(npy("<i4", order, "2, 2, 3", entries)), order, matrix.Options{Slices: true})
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fortran_order %s (-want +got):\n%s", order, diff)
		}
	}
}

// TestHalves compares every half with the hardware's rule for floating-point numbers.
func TestHalves(t *testing.T) {
	for bits := range uint16(0x7c00) {
		got, err := matrix.Read(strings.NewReader(npy("<f2", "False", "1,", []uint16{bits})), "half", matrix.Options{})
		want := float64(math.Float32frombits(uint32(bits)<<13)) * math.Ldexp(1, 112) // the exponent's bias is 127 instead of 15
		if err != nil || got.Data[0] != want {
			t.Fatalf("%#x is %v, want %v: %v", bits, got, want, err)
		}
	}
}

// version3 widens the length of the header, as versions 2 and 3 have it.
func version3(v1 string) string {
	return v1[:6] + "\x03\x00" + v1[8:10] + "\x00\x00" + v1[10:]
}

func TestBad(t *testing.T) {
	square, small := matrix.Options{Square: true}, matrix.Options{MaxSide: 2}
	whole, lines := matrix.Options{Integer: true}, matrix.Options{Lines: "e"}
	for _, c := range []struct {
		text string
		o    matrix.Options
		want string
	}{
		{"", square, "read m: there is nothing in it: want a matrix as CSV, NPY or JSON"},
		{" \n\n", square, "read m: there is nothing in it: want a matrix as CSV, NPY or JSON"},
		{"# 1,2\n", square, "read m: the matrix is empty: want at least one row and one column"},
		{"[]", square, "read m: the matrix is empty: want at least one row and one column"},
		{"[[]]", square, "read m: the matrix is empty: want at least one row and one column"},
		{"1,2\n", square, "read m: the matrix has 1 rows and 2 columns: want as many rows as columns"},
		{"1,2\n3\n", square, "read m: line 2: row 2 has 1 columns and row 1 has 2: every row needs as many"},
		{"[[1,2],[3]]", square, "read m: row 2 has 1 columns and row 1 has 2: every row needs as many"},
		{"1,2\n3,-4\n", square, "read m: row 2, column 2 is -4: want zero or more"},
		{"1,2\n3,NaN\n", square, "read m: row 2, column 2 is NaN: want a finite number"},
		{"1,2\n3,1e999\n", square, "read m: line 2, column 2: \"1e999\" is not a number"},
		{"1,2\n3,Inf\n", square, "read m: row 2, column 2 is +Inf: want a finite number"},
		{"1,2\n\n3,x\n", square, "read m: line 3, column 2: \"x\" is not a number"},
		{"1,\"2\n", square, "read m: parse error on line 1, column 6: extraneous or missing \" in quoted-field"},
		{strings.Repeat("0", 1<<17), small, "read m: a line has more than 64128 bytes: want numbers apart by commas, a row a line"},
		{"1,2,3\n", small, "read m: line 1: it has more than 2 columns: that is the most that is taken"},
		{"1\n2\n3\n", small, "read m: line 3: it has more than 2 rows: that is the most that is taken"},
		{"1,2.5\n", whole, "read m: row 1, column 2 is 2.5: want a whole number"},
		{"1,1e17\n", whole, "read m: row 1, column 2 is 1e+17: want at most 2^53"},
		{"[[1,null],[2,3]]", square, "read m: row 1 has null in it: want numbers"},
		{"[1]\n[null]\n", lines, "read m: row 2 has null in it: want numbers"},
		{"[1]\n{\"a\":[2]}\n", lines, "read m: row 2 is an object without \"e\": want a list of numbers there"},
		{"[1]\n[2,3]\n", lines, "read m: row 2 has 2 columns and row 1 has 1: every row needs as many"},
		{"[1]\n{\"e\":[2]", lines, "read m: the JSON ends too early: it was cut off"},
		{"{}\n", lines, "read m: row 1 is an object without \"e\": want a list of numbers there"},
		{"[1,2]", square, "read m: row 1: json: cannot unmarshal number into Go value of type []float64"},
		{"[[1]] 2", square, "read m: 2 follows the matrix: want nothing"},
		{"[[1]", square, "read m: the JSON ends too early: it was cut off"},
		{`{"matrix": 3}`, square, `read m: "matrix" is 3: want an array of rows`},
		{`{"m": [[1]]}`, square, `read m: the object has a key m: want "matrix" alone, once`},
		{`{}`, square, `read m: the object has no "matrix": want an array of rows there`},
		{npy("<c8", "False", "1, 1"), square, "read m: its entries are not plain numbers: want integers, reals or booleans (save it with astype)"},
		{npy("<V4", "False", "1, 1"), square, "read m: its entries are of type V4, which is not read: use float64 (astype)"},
		{npy("<V2", "False", "1, 2", []uint16{0x437f, 0x4380}), whole, "read m: row 1, column 2 is 256, and numbers of 16 bits of this kind are whole up to 255 alone: save integers (astype(int32))"},
		{npy("<f2", "False", "1, 2", []uint16{0x67ff, 0x6800}), whole, "read m: row 1, column 2 is 2048, and numbers of 16 bits of this kind are whole up to 2047 alone: save integers (astype(int32))"},
		{npy("<f2", "False", "1, 2", []uint16{0x7c00, 0}), whole, "read m: row 1, column 1 is +Inf: want a finite number"},
		{npy("<f2", "False", "1, 2", []uint16{0x7c01, 0}), whole, "read m: row 1, column 1 is NaN: want a finite number"},
		{npy("<f8", "False", "1, 1, 1, 1"), matrix.Options{Slices: true}, "read m: the array has 4 dimensions: want 2 or 3"},
		{npy("<f8", "False", "3000, 3000, 1"), matrix.Options{Slices: true}, "read m: it has more than 4096 rows or columns: that is the most that is taken"},
		{"a,b\n1,x\n", square, "read m: line 2, column 2: \"x\" is not a number"},
		{"1,b\n1,2\n", square, "read m: line 1, column 2: \"b\" is not a number"},
		{"a\tb\n1\n", matrix.Options{Square: true}, "read m: line 2: row 1 has 1 columns and the header 2"},
		{npy("<f8", "False", "1, 1, 1"), square, "read m: the array has 3 dimensions: want 2"},
		{npy("<f8", "False", "0, 0"), square, "read m: the matrix is empty: want at least one row and one column"},
		{npy("<f8", "False", "1000000, 1000000"), square, "read m: it has more than 4096 rows or columns: that is the most that is taken"},
		{npy("<f8", "False", "99999999999999999999, 1"), square, "read m: it has more than 4096 rows or columns: that is the most that is taken"},
		{npy("<f8", "None", "1, 1"), square, "read m: its header says neither order nor shape of the array: save it with numpy.save"},
		{npy("<f8", "False", "2, 2", 1.0), square, "read m: it ends after 1 of 4 entries: it was cut off"},
		{npy("<f8", "False", "1, 1", 1.0, 2.0), square, "read m: bytes follow its 1 entries: want nothing"},
		{npy("<u8", "False", "1, 2", uint64(1), uint64(math.MaxUint64)), whole, "read m: row 1, column 2 is more than 2^53: float64 does not hold it exactly"},
		{npy("<i4", "False", "1, 1", int32(-7)), square, "read m: row 1, column 1 is -7: want zero or more"},
		{"\x93NUMPY", square, "read m: it ends within its header: it was cut off"},
		{"\x93NUMPY\x09\x00", square, "read m: it is of version 9 of the format NPY: want 1, 2 or 3"},
		{"\x93NUMPY\x02\x00\xff\xff\xff\xff", square, "read m: its header has more than 65536 bytes: it is not an array of numbers"},
	} {
		if m, err := matrix.Read(strings.NewReader(c.text), "m", c.o); err == nil {
			t.Errorf("%q is read as %v", c.text, m)
		} else if err.Error() != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := matrix.FromRows([][]float64{{1, 2}, {3}}, square); err == nil {
		t.Error("ragged rows are taken")
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demand.csv")
	if err := os.WriteFile(path, []byte("0,7\n8,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := matrix.ReadFile(path, matrix.Options{Square: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Data, []float64{0, 7, 8, 0}) {
		t.Errorf("read %v", m)
	}
	if _, err := matrix.ReadFile(path+"x", matrix.Options{}); err == nil || !strings.Contains(err.Error(), "demand.csvx") {
		t.Errorf("a missing file: %v", err)
	}
}

// TestFormatsAgree writes random matrices in each format and reads them back.
func TestFormatsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "cols")
		want := &matrix.Dense{Rows: rows, Cols: cols}
		var text, json []string
		for range rows {
			row := rapid.SliceOfN(rapid.Float64Range(0, 1e18), cols, cols).Draw(t, "row")
			want.Data = append(want.Data, row...)
			line := make([]string, cols)
			for j, v := range row {
				line[j] = fmt.Sprint(v)
			}
			text = append(text, strings.Join(line, ","))
			json = append(json, "["+strings.Join(line, ", ")+"]")
		}
		for _, s := range []string{
			strings.Join(text, "\n"), "[" + strings.Join(json, ",\n") + "]",
			npy("<f8", "False", fmt.Sprintf("%d, %d", rows, cols), want.Data),
		} {
			got, err := matrix.Read(strings.NewReader(s), "m", matrix.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-want +got):\n%s", s, diff)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"1,2\n3,4\n", "[[1,2],[3,4]]", `{"matrix":[[1]]}`, npy("<f8", "True", "1, 2", 1.0, 2.0), npy("|u1", "False", "3,", []uint8{1, 2, 3})} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := matrix.Read(bytes.NewReader(data), "m", matrix.Options{MaxSide: 64})
		if err != nil {
			return
		}
		if m.Rows < 1 || m.Cols < 1 || m.Rows > 64 || m.Cols > 64 || len(m.Data) != m.Rows*m.Cols {
			t.Fatalf("a matrix of %d × %d with %d entries", m.Rows, m.Cols, len(m.Data))
		}
		for _, v := range m.Data {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("an entry is %v", v)
			}
		}
	})
}

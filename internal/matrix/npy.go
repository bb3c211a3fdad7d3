package matrix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The format is NumPy's, versions 1 to 3: the magic bytes, the version, the length of the
// header, the header, and the entries. The header is a Python dictionary, {'descr': '<f8',
// 'fortran_order': False, 'shape': (2, 3), }.
const (
	npyMagic  = "\x93NUMPY"
	npyHeader = 1 << 16 // maximum size of a header; a matrix needs about a hundred bytes
)

var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([<>|=])([biufV])([1248])'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([0-9, ]*)\)`)
)

// npyArray is the content of a header.
type npyArray struct {
	order      binary.ByteOrder
	kind       byte // b, i, u, f, V: boolean, integer, unsigned, real, bfloat16
	size       int  // bytes of an entry
	fortran    bool // the first index varies fastest
	slices     int  // of three dimensions; otherwise 0
	rows, cols int  // total over all slices
}

// parseNPY reads an array of one or two dimensions, or of three if the options allow that.
func parseNPY(b *bufio.Reader, o Options) (*Dense, error) {
	head, err := readNPYHeader(b)
	if err != nil {
		return nil, err
	}
	a, err := parseNPYHeader(head, o)
	if err != nil {
		return nil, err
	}
	m := &Dense{Rows: a.rows, Cols: a.cols, Data: make([]float64, a.rows*a.cols), Slices: a.slices}
	entry := make([]byte, a.size)
	for k := range m.Data {
		at := k
		if a.fortran {
			n := max(a.slices, 1)
			rest := k / n // row of the slice, then column
			at = (k%n*(a.rows/n)+rest%(a.rows/n))*a.cols + rest/(a.rows/n)
		}
		if _, err := io.ReadFull(b, entry); err != nil {
			return nil, fmt.Errorf("it ends after %d of %d entries: it was cut off", k, len(m.Data))
		}
		v, exact := a.value(entry)
		if !exact && o.Large {
			m.keep(at, int64(min(a.order.Uint64(entry), maxLarge+1)), o)
			_, exact = m.Large[at]
		}
		if !exact {
			return nil, fmt.Errorf("row %d, column %d is more than 2^53: float64 does not hold it exactly", at/a.cols+1, at%a.cols+1)
		}
		if most := a.whole(); o.Integer && v >= most && !math.IsInf(v, 0) {
			return nil, fmt.Errorf("row %d, column %d is %v, and numbers of 16 bits of this kind are whole up to %v alone: save integers (astype(int32))", at/a.cols+1, at%a.cols+1, v, most-1)
		}
		m.Data[at] = v
	}
	if _, err := b.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("bytes follow its %d entries: want nothing", len(m.Data))
	}
	return m, nil
}

// readNPYHeader reads up to the end of the header.
func readNPYHeader(b *bufio.Reader) (string, error) {
	errCut := errors.New("it ends within its header: it was cut off")
	fixed := make([]byte, len(npyMagic)+2)
	if _, err := io.ReadFull(b, fixed); err != nil {
		return "", errCut
	}
	var length int
	switch version := fixed[len(npyMagic)]; version {
	case 1:
		var n [2]byte
		if _, err := io.ReadFull(b, n[:]); err != nil {
			return "", errCut
		}
		length = int(binary.LittleEndian.Uint16(n[:]))
	case 2, 3:
		var n [4]byte
		if _, err := io.ReadFull(b, n[:]); err != nil {
			return "", errCut
		}
		if binary.LittleEndian.Uint32(n[:]) > npyHeader {
			return "", fmt.Errorf("its header has more than %d bytes: it is not an array of numbers", npyHeader)
		}
		length = int(binary.LittleEndian.Uint32(n[:]))
	default:
		return "", fmt.Errorf("it is of version %d of the format NPY: want 1, 2 or 3", version)
	}
	head := make([]byte, length)
	if _, err := io.ReadFull(b, head); err != nil {
		return "", errCut
	}
	return string(head), nil
}

// parseNPYHeader reads the dictionary.
func parseNPYHeader(head string, o Options) (*npyArray, error) {
	descr, fortran, shape := npyDescr.FindStringSubmatch(head), npyFortran.FindStringSubmatch(head), npyShape.FindStringSubmatch(head)
	if descr == nil {
		return nil, errors.New("its entries are not plain numbers: want integers, reals or booleans (save it with astype)")
	}
	if fortran == nil || shape == nil {
		return nil, errors.New("its header says neither order nor shape of the array: save it with numpy.save")
	}
	a := &npyArray{order: binary.LittleEndian, kind: descr[2][0], size: int(descr[3][0] - '0'), fortran: fortran[1] == "True"}
	if descr[1] == ">" {
		a.order = binary.BigEndian
	}
	if (a.kind == 'b' && a.size != 1) || (a.kind == 'f' && a.size < 2) || (a.kind == 'V' && a.size != 2) {
		return nil, fmt.Errorf("its entries are of type %s%s, which is not read: use float64 (astype)", descr[2], descr[3])
	}
	return a, a.shape(shape[1], o)
}

// shape parses the lengths of the sides.
func (a *npyArray) shape(text string, o Options) error {
	var sides []int
	for side := range strings.SplitSeq(text, ",") {
		if side = strings.TrimSpace(side); side == "" {
			continue
		}
		n, err := strconv.Atoi(side)
		if err != nil || n > o.maxRows() {
			return tooLarge("rows or columns", o.maxSide())
		}
		sides = append(sides, n)
	}
	switch {
	case len(sides) == 1 && o.Column:
		a.rows, a.cols = sides[0], 1
	case len(sides) == 1:
		a.rows, a.cols = 1, sides[0]
	case len(sides) == 2:
		a.rows, a.cols = sides[0], sides[1]
	case len(sides) == 3 && o.Slices:
		a.slices, a.rows, a.cols = sides[0], sides[0]*sides[1], sides[2]
	case o.Slices:
		return fmt.Errorf("the array has %d dimensions: want 2 or 3", len(sides))
	default:
		return fmt.Errorf("the array has %d dimensions: want 2", len(sides))
	}
	if a.rows > o.maxRows() || a.cols > o.maxSide() {
		return tooLarge("rows or columns", o.maxSide())
	}
	return nil
}

// whole returns the first whole number beyond which 16-bit entries cannot represent every whole
// number. Other kinds have no such limit here.
func (a *npyArray) whole() float64 {
	switch {
	case a.kind == 'V':
		return 1 << 8
	case a.kind == 'f' && a.size == 2:
		return 1 << 11
	}
	return math.Inf(1)
}

// value returns an entry, and whether float64 holds it exactly.
func (a *npyArray) value(entry []byte) (float64, bool) {
	var bits uint64
	switch a.size {
	case 1:
		bits = uint64(entry[0])
	case 2:
		bits = uint64(a.order.Uint16(entry))
	case 4:
		bits = uint64(a.order.Uint32(entry))
	case 8:
		bits = a.order.Uint64(entry)
	}
	switch a.kind {
	case 'V': // the upper half of a 32-bit real
		return float64(math.Float32frombits(uint32(bits) << 16)), true
	case 'f':
		switch a.size {
		case 2:
			return half(bits), true
		case 4:
			return float64(math.Float32frombits(uint32(bits))), true
		}
		return math.Float64frombits(bits), true
	case 'i':
		shift := 64 - 8*a.size
		v := int64(bits<<shift) >> shift
		return float64(v), v <= maxInteger
	}
	return float64(bits), bits <= maxInteger
}

// half converts a 16-bit real: a sign, 5 bits of exponent, and 10 of fraction.
func half(bits uint64) float64 {
	v, exponent, fraction := 0.0, int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		if v = math.Inf(1); fraction != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15&1 == 1 {
		v = -v
	}
	return v
}

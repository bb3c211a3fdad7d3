package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/topology"
)

// End is the intended end of a cable. The node is known by its GUID, its name, or the GUID of a
// host port.
type End struct {
	GUID, Host ib.GUID
	Name       string
	Port       uint8 // 0 if only Host is known
}

// String returns the end in readable form.
func (e End) String() string {
	name := e.Name
	if name == "" {
		name = max(e.GUID, e.Host).String()
	}
	if e.Port == 0 {
		return name
	}
	return fmt.Sprintf("%s port %d", name, e.Port)
}

// Wanted is an intended cable.
type Wanted struct {
	A, B End
	Gbps float64 // 0 means any speed
	Line int     // line in its file; 0 without a file
	// Rival is the line of an earlier cable with the same port, or 0.
	Rival int
}

// String names both ends.
func (w *Wanted) String() string { return w.A.String() + " – " + w.B.String() }

// ReadIntended reads an intended topology: a CSV of cables in the format of UFM's NDT, or a
// saved ibnetdiscover output or opensm-subnet.lst. Errors in CSV name the line and the column.
func ReadIntended(data []byte) ([]Wanted, error) {
	if fabric, _, err := topology.Read(data); err == nil {
		return ofCabling(describe.Cabling(fabric, time.Time{})), nil
	} else if !header.Match(data) {
		return nil, fmt.Errorf("it is neither a CSV of cables, whose first line names the columns StartDevice, StartPort, EndDevice and EndPort, nor a topology: %w", err)
	}
	return readCSV(data)
}

// ofCabling returns the actual cables as intended ones.
func ofCabling(c *api.Cabling) (out []Wanted) {
	end := func(e *api.LinkEnd) End { return End{e.GUID, e.Host, e.Name, e.Port} }
	for i := range c.Links {
		l := &c.Links[i]
		out = append(out, Wanted{A: end(&l.A), B: end(&l.B), Gbps: ib.ParseRate(l.Rate).Gbps()})
	}
	return out
}

// header matches the line with the column names.
var header = regexp.MustCompile(`(?im)^.*(start[ _-]?device.*end|end[ _-]?device.*start)[ _-]?device.*$`)

// The columns that are read. Those after endPort are optional; all others are ignored.
const (
	startDevice = iota
	startPort
	endDevice
	endPort
	linkType
	state
	domain
	speed
)

var columns = []string{"startdevice", "startport", "enddevice", "endport", "linktype", "state", "domain", "speed"}

// table reads rows with columns in any order.
type table struct {
	*csv.Reader
	at   []int // [column] its position, or -1
	row  []string
	used map[End]int // line of the cable at an end
}

// readCSV reads a CSV of cables.
func readCSV(data []byte) (out []Wanted, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	t := &table{Reader: r, used: map[End]int{}}
	for {
		if t.row, err = r.Read(); errors.Is(err, io.EOF) {
			break
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("line %d, column %d: %w: put texts with commas or quotes into quotes, and double quotes within them", bad.Line, bad.Column, bad.Err)
		} else if err != nil {
			return nil, err
		}
		if t.at == nil {
			if err := t.names(); err != nil {
				return nil, err
			}
			continue
		}
		w, err := t.cable()
		if err != nil {
			return nil, err
		}
		if w != nil {
			out = append(out, *w)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no cable in it: want a row for each, with StartDevice, StartPort, EndDevice and EndPort")
	}
	return out, nil
}

// names reads the column names. It skips lines before them.
func (t *table) names() error {
	if !header.MatchString(strings.Join(t.row, ",")) {
		return nil
	}
	t.at = make([]int, len(columns))
	for c, name := range columns {
		t.at[c] = slices.IndexFunc(t.row, func(cell string) bool {
			_, behind, found := strings.Cut(cell, "#Fields:")
			if !found {
				behind = cell
			}
			return strings.NewReplacer(" ", "", "_", "", "-", "", "#", "").Replace(strings.ToLower(behind)) == name
		})
		if t.at[c] < 0 && c <= endPort {
			line, _ := t.FieldPos(0)
			return fmt.Errorf("line %d: there is no column %s: the columns StartDevice, StartPort, EndDevice and EndPort must be named", line, name)
		}
	}
	return nil
}

// cell returns the text in a column, or "" if the column is missing.
func (t *table) cell(column int) string {
	if at := t.at[column]; at >= 0 && at < len(t.row) {
		return strings.TrimSpace(t.row[at])
	}
	return ""
}

// wrong returns an error for a column.
func (t *table) wrong(column int, format string, args ...any) error {
	line, at := t.FieldPos(min(max(t.at[column], 0), len(t.row)-1))
	return fmt.Errorf("line %d, column %d: %s", line, at, fmt.Sprintf(format, args...))
}

// cable returns the cable of the row. It returns nil if the row is blank, is not of type data,
// is disabled, or leads out of the fabric.
func (t *table) cable() (*Wanted, error) {
	is := func(column int, words ...string) bool {
		cell := strings.ToLower(t.cell(column))
		return cell == "" || slices.Contains(words, cell)
	}
	blank := !slices.ContainsFunc(t.row, func(cell string) bool { return strings.TrimSpace(cell) != "" })
	if blank || strings.HasPrefix(t.row[0], "#") || !is(linkType, "data") || !is(state, "active") || !is(domain, "in-scope", "in scope") {
		return nil, nil
	}
	w := &Wanted{}
	w.Line, _ = t.FieldPos(0)
	var keys [2]End
	for i, x := range []struct {
		end          *End
		device, port int
	}{{&w.A, startDevice, startPort}, {&w.B, endDevice, endPort}} {
		name := t.cell(x.device)
		if name == "" {
			return nil, t.wrong(x.device, "there is no device: give its node description or GUID, or leave the line out")
		}
		board, port, err := portNumber(t.cell(x.port))
		if err != nil {
			return nil, t.wrong(x.port, "%v", err)
		}
		x.end.Port = port
		if g, err := ib.ParseGUID(name); err == nil && strings.HasPrefix(name, "0x") {
			x.end.GUID = g
		} else {
			x.end.Name = name + board
		}
		keys[i] = End{GUID: x.end.GUID, Name: strings.ToLower(x.end.Name), Port: port}
	}
	if before := t.used[keys[0]]; before != 0 && before == t.used[keys[1]] && keys[0] != keys[1] {
		return nil, nil // also listed at its other end
	}
	if keys[0] == keys[1] {
		return nil, t.wrong(endPort, "the cable joins %s to itself", w.A)
	}
	for _, key := range keys {
		if before := t.used[key]; before != 0 {
			w.Rival = before
		} else {
			t.used[key] = w.Line
		}
	}
	if text := t.cell(speed); text != "" {
		var err error
		if w.Gbps, err = gbps(text); err != nil {
			return nil, t.wrong(speed, "%v", err)
		}
	}
	return w, nil
}

var (
	portText  = regexp.MustCompile(`(?i)^(?:port ?|p)?([0-9]{1,3})$`)
	bladeText = regexp.MustCompile(`(?i)^blade ?([0-9]{1,3})[_ ]port ?([0-9]{1,2})/([0-9]{1,3})$`)
)

// portNumber parses a port number, such as "Port 26". A port of a director, such as "Blade
// 16_Port 2/20", belongs to the switch whose name ends in /L16/U2.
func portNumber(text string) (board string, port uint8, err error) {
	digits := ""
	if m := bladeText.FindStringSubmatch(text); m != nil {
		board, digits = fmt.Sprintf("/L%s/U%s", m[1], m[2]), m[3]
	} else if m := portText.FindStringSubmatch(text); m != nil {
		digits = m[1]
	} else {
		return "", 0, fmt.Errorf("%.40q is not a port: want Port N, N, or of a director Blade N_Port N/N, its board, the chip there and its port", text)
	}
	n, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || n < 1 || n > 254 {
		return "", 0, fmt.Errorf("%.40q is not a port: want 1 to 254", text)
	}
	return board, uint8(n), nil
}

// gbps parses a speed: a name such as HDR or 4xHDR, or a number in Gbit/s, or in Mbit/s if it
// is in the thousands.
func gbps(text string) (float64, error) {
	for _, form := range []string{text, "4x" + strings.ToUpper(text)} {
		if rate := ib.ParseRate(form); rate.Known() {
			return rate.Gbps(), nil
		}
	}
	number := strings.TrimRight(strings.ToLower(text), "gbps/ ")
	if v, err := strconv.ParseFloat(number, 64); err == nil && v > 0 && v < 1e7 {
		if v >= 2500 {
			v /= 1000
		}
		return v, nil
	}
	return 0, fmt.Errorf("%.40q is not a speed: want such as HDR, 4xHDR or 200, or nothing", text)
}

package cli

import (
	"bytes"
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// phases is a plan as read from its file.
type phases struct {
	epoch uint64 // 0 if the file does not have it
	rows  []phasetable.Row
}

// readPhases reads a plan from phases.csv or phases.bin, and detects the format from the
// content.
func readPhases(flag, path string) (*phases, error) {
	data, err := command.ReadFlag(flag, path, "a phases.csv or phases.bin")
	if err != nil {
		return nil, err
	}
	if phasetable.Is(data) {
		view, err := phasetable.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &phases{view.Epoch(), rowsOf(view)}, nil
	}
	if first, _, _ := bytes.Cut(data, []byte{'\n'}); string(bytes.TrimSuffix(first, []byte{'\r'})) != phasetable.CSVHeader {
		return nil, fmt.Errorf("%s is neither a phases.csv (its first line is not %q) nor a phases.bin", path, phasetable.CSVHeader)
	}
	rows, err := phasetable.ReadCSV(bytes.NewReader(data), path)
	if err != nil {
		return nil, err
	}
	return &phases{rows: rows}, nil
}

// rowsOf lists the transfers of a table by phase and server number.
func rowsOf(view *phasetable.View) []phasetable.Row {
	servers := view.Servers()
	guids, lines := make([]ib.GUID, servers), make([]phasetable.ServerRow, servers)
	for s := range servers {
		guids[s], lines[s] = view.Server(s).GUID, view.Row(s)
	}
	rows := make([]phasetable.Row, 0, servers*view.Phases())
	for p := range view.Phases() {
		for s := range servers {
			if x := lines[s].At(p); x.SendTo >= 0 {
				rows = append(rows, phasetable.Row{Phase: p, Src: guids[s], Dst: guids[x.SendTo], Lane: x.Lane, DLID: x.DLID})
			}
		}
	}
	return rows
}

// bind converts rows by GUID to rows by server of the tree. A server that is not in the tree is
// a violation: the plan belongs to another fabric.
func (p *phases) bind(t *topology.FatTree) (verify.Rows, error) {
	index := make(map[ib.GUID]int, len(t.Servers))
	for i, h := range t.Servers {
		index[t.Hosts[h].GUID] = i
	}
	last := -1
	for _, r := range p.rows {
		last = max(last, r.Phase)
	}
	if last >= min(maxPhases, 2*len(p.rows)+1) {
		return verify.Rows{}, fmt.Errorf("phase %d is beyond any plan of %d servers", last, len(t.Servers))
	}
	rows := verify.NewRows(len(t.Servers), last+1)
	for _, r := range p.rows {
		src, ok := index[r.Src]
		if !ok {
			return rows, command.Violated{Err: fmt.Errorf("phase %d: source %s is not a server of the fabric", r.Phase, r.Src)}
		}
		dst, ok := index[r.Dst]
		if !ok {
			return rows, command.Violated{Err: fmt.Errorf("phase %d: destination %s is not a server of the fabric", r.Phase, r.Dst)}
		}
		if err := rows.Put(t, r.Phase, src, dst, int16(r.Lane), r.DLID); err != nil {
			return rows, command.Violated{Err: err}
		}
	}
	return rows, nil
}

// maxPhases bounds the memory that a phase number from a file can use. The number of transfers
// is a bound too, because no plan has more empty phases than others.
const maxPhases = 1 << 18

// table returns the plan bound to a tree, in the form that ranks use.
func (p *phases) table(t *topology.FatTree) (*phasetable.View, error) {
	rows, err := p.bind(t)
	if err != nil {
		return nil, err
	}
	view, err := phasetable.New(&phasetable.Table{Epoch: p.epoch, Phases: rows.Phases, Lanes: t.Lanes, Servers: planner.Directory(t.Hosts, t.Servers), To: rows.To, Lane: rows.Lane, DLID: rows.DLID})
	if err != nil {
		return nil, command.Violated{Err: err}
	}
	return view, nil
}

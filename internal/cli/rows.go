package cli

import (
	"bytes"
	"fmt"
	"os"

	"forsd/lft"
	"forsd/phasetable"
	"forsd/topology"
	"forsd/verify"
)

// readPhases reads a plan from phases.csv or phases.bin, recognised by content.
func readPhases(path string) ([]phasetable.Row, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte(phasetable.CSVHeader)) {
		return phasetable.ReadCSV(bytes.NewReader(data), path)
	}
	if !phasetable.Is(data) {
		return nil, fmt.Errorf("%s is neither a phases.csv (its first line is not %q) nor a phases.bin", path, phasetable.CSVHeader)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var csv bytes.Buffer
	if err := phasetable.WriteCSV(&csv, view.Table()); err != nil {
		return nil, err
	}
	return phasetable.ReadCSV(&csv, path)
}

// bindRows turns rows by GUID into rows by server of the tree. A server that
// the tree lacks is a violation: the plan is not of this fabric.
func bindRows(t *topology.FatTree, list []phasetable.Row) (verify.Rows, error) {
	index := make(map[topology.GUID]int, len(t.Servers))
	for i, h := range t.Servers {
		index[t.Hosts[h].GUID] = i
	}
	phases := 0
	for _, r := range list {
		phases = max(phases, r.Phase+1)
	}
	rows := verify.NewRows(len(t.Servers), phases)
	for _, r := range list {
		src, ok := index[r.Src]
		if !ok {
			return rows, violated{fmt.Errorf("phase %d: source %s is not a server of the fabric", r.Phase, r.Src)}
		}
		dst, ok := index[r.Dst]
		if !ok {
			return rows, violated{fmt.Errorf("phase %d: destination %s is not a server of the fabric", r.Phase, r.Dst)}
		}
		if err := rows.Put(t, r.Phase, src, dst, int16(r.Lane), r.DLID); err != nil {
			return rows, violated{err}
		}
	}
	return rows, nil
}

// readTables reads forwarding tables in any form that lft.Read knows.
func readTables(path string) (*lft.Tables, error) {
	if path == "" {
		return nil, fmt.Errorf("--lfts is missing: name a file with forwarding tables (lfts.dump, opensm-lfts.dump or the output of dump_fts)")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tables, err := lft.ReadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tables, nil
}

// writeFile writes a file that a command was asked for.
func writeFile(path string, data []byte) error { return os.WriteFile(path, data, 0o644) }

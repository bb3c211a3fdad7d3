package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/forsd/forsd/ib"
)

// upload sends the tables' blocks that differ from those that the switches are believed to
// hold, some blocks at a time.
func (m *subnetManager) upload(tables [][]uint8, engine string, own bool) {
	p := m.w.plant
	blocks := (len(p.owner) + 63) / 64
	var send func(from int)
	send = func(from int) {
		to := min(blocks, from+1+m.w.rng.IntN(blocks))
		seen := p.near(m.host)
		if r := m.rival(); r != nil && r.master {
			m.w.spoilt = true // two halves of a fabric have been joined, each with a master
		}
		for i := range p.nodes {
			if !p.nodes[i].isSwitch || !m.nodes[i] {
				continue
			}
			if m.believed[i] == nil || len(tables[i]) != len(p.owner) {
				t := p.empty()
				copy(t, tables[i])
				tables[i] = t
			}
			for b := from; b < to; b++ {
				lo, hi := 64*b, min(64*b+64, len(p.owner))
				if m.believed[i] != nil && bytes.Equal(m.believed[i][lo:hi], tables[i][lo:hi]) {
					continue
				}
				if !seen[i] || m.w.rng.IntN(1000) < m.w.lossy {
					m.failed, m.believed[i] = true, nil
					continue
				}
				copy(p.nodes[i].table[lo:hi], tables[i][lo:hi])
				if m.believed[i] != nil {
					copy(m.believed[i][lo:hi], tables[i][lo:hi])
				}
				m.w.tablesChanged = true
			}
		}
		if to < blocks {
			m.step(m.w.between(0, 10), func() { send(to) })
			return
		}
		for i := range p.nodes {
			if p.nodes[i].isSwitch && m.nodes[i] && seen[i] && !m.failed {
				m.believed[i] = bytes.Clone(tables[i])
				m.w.plant.nodes[i].blank = false
			}
		}
		m.step(m.w.between(1, 10), func() { m.routed(engine, own) })
	}
	send(0)
}

func equalLinks(a, b []bool) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// readTables reads a table file as OpenSM does.
func (p *plant) readTables(text []byte) ([][]uint8, error) {
	tables := make([][]uint8, len(p.nodes))
	at := -1
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if i := bytes.Index(line, []byte(" guid 0x")); bytes.HasPrefix(line, []byte("Unicast lids")) && i > 0 {
			guid, err := strconv.ParseUint(string(line[i+8:i+24]), 16, 64)
			if err != nil {
				return nil, err
			}
			if at = int(p.whole.Find(ib.GUID(guid))); at >= 0 {
				tables[at] = p.empty()
			}
			continue
		}
		if len(line) < 10 || !bytes.HasPrefix(line, []byte("0x")) || at < 0 {
			continue
		}
		lid, err := strconv.ParseUint(string(line[2:6]), 16, 16)
		port, err2 := strconv.ParseUint(string(line[7:10]), 10, 8)
		if err = errors.Join(err, err2); err != nil || int(lid) >= len(p.owner) {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		tables[at][lid] = uint8(port)
	}
	return tables, nil
}

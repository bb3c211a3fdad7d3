package lft

import (
	"fmt"

	"github.com/forsd/forsd/topology"
)

// Misfit checks whether the tables can be those of fabric f. The error is a contradiction
// that no change of the fabric between the two readings explains: none of its switches has
// a table, a switch has another LID there, or an entry leads to a port that its switch does
// not have. The doubts are contradictions that such a change may explain: tables of
// switches that f lacks, and switches with a cable that have no table.
func (t *Tables) Misfit(f *topology.Fabric) (doubts []string, err error) {
	var strange, bare []string
	tabled := make([]bool, len(f.Nodes))
	found := false
	for i := range t.Switches {
		s := &t.Switches[i]
		node := f.Find(s.GUID)
		if node == topology.None || f.Nodes[node].Kind != topology.Switch {
			strange = append(strange, (&topology.Node{GUID: s.GUID, Name: s.Name}).String())
			continue
		}
		tabled[node], found = true, true
		if err := s.misfit(&f.Nodes[node]); err != nil {
			return nil, err
		}
	}
	switches := false
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		switches = true
		if !tabled[i] && cabled(n) {
			bare = append(bare, n.String())
		}
	}
	if switches && !found {
		return nil, fmt.Errorf("no switch of the fabric has a table among the %d", len(t.Switches))
	}
	return doubted(doubted(nil, "the fabric lacks switches that have tables", strange), "switches have no table", bare), nil
}

// misfit returns an error if the table cannot be that of switch n.
func (s *Table) misfit(n *topology.Node) error {
	if lid := n.LID(); s.LID != 0 && lid != 0 && s.LID != lid {
		return fmt.Errorf("switch %s has LID %d in the tables and %d in the fabric", n, s.LID, lid)
	}
	for lid, out := range s.Out {
		if out != NoPath && int(out) >= len(n.Ports) {
			return fmt.Errorf("switch %s sends LID 0x%04x to port %d: it has %d ports", n, lid, out, len(n.Ports)-1)
		}
	}
	return nil
}

// Dead counts the entries for LIDs in use that lead to ports of f without a cable that is up.
func (t *Tables) Dead(f *topology.Fabric) (n int) {
	lids := LIDs(f)
	for i := range t.Switches {
		node := f.Find(t.Switches[i].GUID)
		if node == topology.None {
			continue
		}
		ports := f.Nodes[node].Ports
		for _, lid := range lids {
			if p := t.Port(i, lid); p != 0 && p != NoPath && (int(p) >= len(ports) || !ports[p].Up()) {
				n++
			}
		}
	}
	return n
}

// cabled reports whether a node has a cable that is up.
func cabled(n *topology.Node) bool {
	for p := range n.Ports {
		if n.Ports[p].Up() {
			return true
		}
	}
	return false
}

// doubted appends a doubt about some switches, naming the first of them.
func doubted(doubts []string, what string, switches []string) []string {
	switch more := len(switches) - 1; more {
	case -1:
		return doubts
	case 0:
		return append(doubts, what+": "+switches[0])
	default:
		return append(doubts, fmt.Sprintf("%s: %s and %d more", what, switches[0], more))
	}
}

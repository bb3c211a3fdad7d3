package topology

import (
	"fmt"
	"strings"
)

// uncovered lists the parts outside the tree, and reports them in one finding.
func (t *fitter) uncovered() {
	f, u := t.Fabric, &t.Uncovered
	for i := range f.Nodes {
		if f.Nodes[i].Kind != Switch || len(t.near[i].switches)+t.near[i].hosts == 0 {
			continue
		}
		level := t.level(int32(i))
		if level == noSide {
			u.Switches = append(u.Switches, int32(i))
			continue
		}
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			first := port.Peer > int32(i) || port.Peer == int32(i) && int(port.PeerPort) >= p
			if port.Up() && first && t.level(port.Peer) == level {
				u.Cables = append(u.Cables, PortRef{int32(i), uint8(p)})
			}
		}
	}
	if !u.Empty() {
		t.report(PartlyCovered, "%s", t.uncoveredText())
	}
}

// level returns the side of the tree that a switch is on, noSide for other nodes.
func (t *fitter) level(i int32) side {
	switch {
	case t.leafAt[i] >= 0:
		return leafSide
	case t.spineAt[i] >= 0 || t.newSpine[i]:
		return spineSide
	}
	return noSide
}

// strayHost records an end port that should take part in the exchange and cannot.
func (t *fitter) strayHost(r PortRef, format string, args ...any) {
	t.Uncovered.Hosts = append(t.Uncovered.Hosts, UncoveredHost{r, fmt.Sprintf(format, args...)})
}

// uncoveredText names what is not covered.
func (t *fitter) uncoveredText() string {
	var cables []string
	for _, r := range t.Uncovered.Cables {
		levels := map[side]string{leafSide: "leaves", spineSide: "spines"}
		cables = append(cables, fmt.Sprintf("%s joins two %s, and no path takes it", t.Fabric.CableLabel(r), levels[t.level(r.Node)]))
	}
	return t.uncoveredWith(cables)
}

// uncoveredWith names it, given what is to be said of the cables.
func (t *fitter) uncoveredWith(cables []string) string {
	f, u := t.Fabric, &t.Uncovered
	var switches, hosts []string
	for _, i := range u.Switches {
		switches = append(switches, f.Nodes[i].String())
	}
	for _, h := range u.Hosts {
		hosts = append(hosts, f.PortLabel(h.PortRef)+" "+h.Why)
	}
	var parts []string
	for _, p := range []struct {
		one, many string
		names     []string
	}{{"switch", "switches", switches}, {"host port", "host ports", hosts}, {"cable", "cables", cables}} {
		if len(p.names) > 0 {
			parts = append(parts, counted(len(p.names), p.one, p.many)+" ("+listed(p.names)+")")
		}
	}
	text := "the fat tree does not cover " + strings.Join(parts, ", ")
	if len(switches)+len(hosts) > 0 {
		text += ": what has an LID stays routed, and takes no part in the exchange"
	}
	return text
}

// counted returns a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// maxListed is how many names a finding gives of a kind; the topology has all.
const maxListed = 50

// listed joins names.
func listed(names []string) string {
	if len(names) > maxListed {
		return fmt.Sprintf("%s; and %d more", strings.Join(names[:maxListed], "; "), len(names)-maxListed)
	}
	return strings.Join(names, "; ")
}

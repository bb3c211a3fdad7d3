package exclusions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Find finds the part that a text refers to, and the part's name. The text is a switch's
// description or GUID, or SWITCH/PORT for a cable between two switches, in any form of
// topology.CutPort. Find also finds absent parts of the baseline.
func Find(t *topology.FatTree, spec string) (p Part, name string, err error) {
	if s := find(t, spec); s != nil {
		return Part{Kind: s.kind, GUID: s.guid}, s.name, nil
	}
	node, digits, ok := topology.CutPort(spec)
	at := find(t, node)
	if !ok || at == nil {
		return p, "", unknown(t, node)
	}
	port, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || port == 0 {
		return p, "", fmt.Errorf("%q is not a port of %s: a decimal number was expected", digits, at.name)
	}
	for _, x := range Links(t) {
		if x.Lower.GUID == at.guid && x.Lower.Port == uint8(port) || x.Upper.GUID == at.guid && x.Upper.Port == uint8(port) {
			return Part{Cable, x.Lower.GUID, x.Lower.Port}, fmt.Sprint(x.Lower.Name, portOf, x.Lower.Port, between, x.Upper.Name, portOf, x.Upper.Port), nil
		}
	}
	of := "a leaf and a spine"
	if t.Pods != nil {
		of = "levels"
	}
	return p, "", fmt.Errorf("port %d of %s has no cable between %s that plans could use", port, at.name, of)
}

// node is a switch of the tree.
type node struct {
	kind Kind
	guid ib.GUID
	name string
}

// switches lists the switches of the tree, present or not.
func switches(t *topology.FatTree) []node {
	var all []node
	for i := range t.Leaves {
		all = append(all, node{Leaf, t.Leaves[i].GUID, t.Leaves[i].Name})
	}
	upper := Spine
	if t.Pods != nil {
		upper = Top
		for i := range t.Pods.Mids {
			if m := &t.Pods.Mids[i]; m.GUID != 0 { // not every pod has one
				all = append(all, node{Mid, m.GUID, m.Name})
			}
		}
	}
	for i := range t.Spines {
		if t.Spines[i].GUID != 0 { // planes have none
			all = append(all, node{upper, t.Spines[i].GUID, t.Spines[i].Name})
		}
	}
	return all
}

// find returns the switch with a name or a GUID, or nil unless exactly one matches.
func find(t *topology.FatTree, name string) *node {
	guid, err := ib.ParseGUID(name)
	var found []node
	for _, s := range switches(t) {
		if s.name == name || err == nil && s.guid == guid {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return &found[0]
}

// unknown returns the error for a name of no switch, or of several.
func unknown(t *topology.FatTree, name string) error {
	var guids []string
	for _, s := range switches(t) {
		if s.name == name {
			guids = append(guids, s.guid.String())
		}
	}
	if len(guids) > 1 {
		return fmt.Errorf("%d switches are called %q: say which by its GUID: %s", len(guids), name, strings.Join(guids[:min(8, len(guids))], ", "))
	}
	for i := range t.Hosts {
		if h := &t.Hosts[i]; h.Name == name || ib.SameHost(ib.FirstWord(h.Name), name) {
			return fmt.Errorf("%s is a host: switches of the tree and the cables between them are drained", h.Name)
		}
	}
	none := "no spine and no leaf"
	if t.Pods != nil {
		none = "no leaf, mid or top"
	}
	return fmt.Errorf("%s has the description or GUID %q%s", none, name, ib.DidYouMean(name, func(yield func(string) bool) {
		for _, s := range switches(t) {
			if !yield(s.name) {
				return
			}
		}
	}))
}

// DrainedCables lists the cables that the drains take out, of those of a tree. A cable that was moved
// to another port of its lower switch is still the same cable. If its port has another cable now,
// that cable is not drained.
func DrainedCables(links []Link, all []Drain) (out []ib.End) {
	for _, x := range links {
		instead := func(y Link) bool { return y.Lower.End == x.Lower.End && y.State != topology.Missing }
		if slices.ContainsFunc(all, func(d Drain) bool { return d.Active() && d.takes(&x) }) && !(x.State == topology.Missing && slices.ContainsFunc(links, instead)) {
			out = append(out, x.Lower.End)
		}
	}
	return out
}

// takes reports whether a drain takes out a cable.
func (d *Drain) takes(x *Link) bool {
	if d.Kind == Cable {
		return x.Lower.GUID == d.GUID && (x.Lower.Port == d.Port || x.Meant == d.Port)
	}
	return x.Lower.GUID == d.GUID || x.Upper.GUID == d.GUID
}

// DrainedLeaves lists the leaves whose hosts the drains take out.
func DrainedLeaves(all []Drain) (out []ib.GUID) {
	for i := range all {
		if d := &all[i]; d.Kind == Leaf && d.Active() {
			out = append(out, d.GUID)
		}
	}
	return out
}

// WithoutDrained returns the findings about a fabric without those that drains explain: drained
// parts may be absent.
func WithoutDrained(t *topology.FatTree, all []Drain, found []topology.Finding) []topology.Finding {
	if t == nil || len(all) == 0 {
		return found
	}
	cables, leaves := DrainedCables(Links(t), all), DrainedLeaves(all)
	return slices.DeleteFunc(slices.Clone(found), func(f topology.Finding) bool {
		at := ib.GUID(f.Node)
		switch f.Code {
		case topology.SpineDown, topology.LeafDown:
			return slices.ContainsFunc(all, func(d Drain) bool { return d.Active() && d.Kind != Cable && d.GUID == at })
		case topology.CableDown, topology.CableDegraded:
			return slices.Contains(cables, ib.End{GUID: at, Port: f.Port})
		case topology.HostAbsent:
			return slices.Contains(leaves, at)
		}
		return false
	})
}

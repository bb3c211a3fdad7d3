package drains

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/internal/withheld"
	"github.com/forsd/forsd/topology"
)

// Find finds the part that a text means, and its name: a spine or a leaf by its description
// or GUID, or SWITCH/PORT for a cable between the two. Parts of the baseline that are
// absent are found as well.
func Find(t *topology.FatTree, spec string) (p Part, name string, err error) {
	if s := find(t, spec); s != nil {
		return Part{Kind: s.kind, GUID: s.guid}, s.name, nil
	}
	slash := strings.LastIndexByte(spec, '/')
	if slash < 0 {
		return p, "", unknown(t, spec)
	}
	at := find(t, spec[:slash])
	if at == nil {
		return p, "", unknown(t, spec[:slash])
	}
	port, err := strconv.ParseUint(spec[slash+1:], 10, 8)
	if err != nil || port == 0 {
		return p, "", fmt.Errorf("%q is no port of %s: a decimal number was expected", spec[slash+1:], at.name)
	}
	for l := range t.Leaves {
		for k := range t.Lanes {
			c, is := withheld.At(t, l, k)
			spine := &t.Spines[t.LaneOf[k]]
			up := t.Leaves[l].Cables[k].SpinePort
			if !t.Leaves[l].Cables[k].Usable() {
				up = t.Baseline.Leaves[l].Uplinks[k].SpinePort
			}
			if is && (at.kind == Leaf && c.Leaf == at.guid && c.Port == uint8(port) || at.kind == Spine && spine.GUID == at.guid && up == uint8(port)) {
				return Part{Cable, c.Leaf, c.Port}, fmt.Sprintf("%s port %d – %s port %d", t.Leaves[l].Name, c.Port, spine.Name, up), nil
			}
		}
	}
	return p, "", fmt.Errorf("port %d of %s has no cable between a leaf and a spine that plans could use", port, at.name)
}

// node is a switch of the tree.
type node struct {
	kind Kind
	guid topology.GUID
	name string
}

// switches lists the switches of the tree, present or not.
func switches(t *topology.FatTree) []node {
	all := make([]node, 0, len(t.Leaves)+len(t.Spines))
	for i := range t.Leaves {
		all = append(all, node{Leaf, t.Leaves[i].GUID, t.Leaves[i].Name})
	}
	for i := range t.Spines {
		all = append(all, node{Spine, t.Spines[i].GUID, t.Spines[i].Name})
	}
	return all
}

// find is the one switch that a name or a GUID means, nil for none.
func find(t *topology.FatTree, name string) *node {
	guid, err := topology.ParseGUID(name)
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

// unknown says that no switch has this name, or several.
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
		if h := &t.Hosts[i]; h.Name == name || topology.SameHost(topology.FirstWord(h.Name), name) {
			return fmt.Errorf("%s is a host: spines, leaves and the cables between them are drained", h.Name)
		}
	}
	return fmt.Errorf("no spine and no leaf has the description or GUID %q%s", name, topology.DidYouMean(name, func(yield func(string) bool) {
		for _, s := range switches(t) {
			if !yield(s.name) {
				return
			}
		}
	}))
}

// Cables lists the cables of a tree that the drains take out. A cable that was plugged into
// another port of its leaf meanwhile is still the same.
func Cables(t *topology.FatTree, all []Drain) (out []withheld.Cable) {
	for l := range t.Leaves {
		for k := range t.Lanes {
			c, is := withheld.At(t, l, k)
			if is && slices.ContainsFunc(all, func(d Drain) bool { return d.Active() && d.takes(t, l, k, c) }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// takes tells whether a drain takes out a cable, the lane k of leaf l.
func (d *Drain) takes(t *topology.FatTree, l, k int, c withheld.Cable) bool {
	switch d.Kind {
	case Spine:
		return t.Spines[t.LaneOf[k]].GUID == d.GUID
	case Leaf:
		return c.Leaf == d.GUID
	}
	return c.Leaf == d.GUID && (c.Port == d.Port || t.Baseline.Leaves[l].Uplinks[k].LeafPort == d.Port)
}

// Leaves lists the leaves whose hosts the drains take out.
func Leaves(all []Drain) (out []topology.GUID) {
	for i := range all {
		if d := &all[i]; d.Kind == Leaf && d.Active() {
			out = append(out, d.GUID)
		}
	}
	return out
}

// Quiet is what is found of a fabric but for what drains explain: parts that are drained
// may be absent.
func Quiet(t *topology.FatTree, all []Drain, found []topology.Finding) []topology.Finding {
	if t == nil || len(all) == 0 {
		return found
	}
	cables, leaves := Cables(t, all), Leaves(all)
	return slices.DeleteFunc(slices.Clone(found), func(f topology.Finding) bool {
		at := topology.GUID(f.Node)
		switch f.Code {
		case topology.SpineDown, topology.LeafDown:
			return slices.ContainsFunc(all, func(d Drain) bool { return d.Active() && d.Kind != Cable && d.GUID == at })
		case topology.CableDown, topology.CableDegraded:
			return slices.Contains(cables, withheld.Cable{Leaf: at, Port: f.Port})
		case topology.HostAbsent:
			return slices.Contains(leaves, at)
		}
		return false
	})
}

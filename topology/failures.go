package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
)

// Fail removes the part that spec names, a whole node or one port's cable, and describes
// it: "Leaf007 port 31 – Spine010 port 8", or "Spine010 with 18 cables". The spec is a
// node, by description, GUID or host name, or NODE/PORT with a decimal port. A match of a
// whole description wins; otherwise the text is split at its last slash. A comma separates
// several parts, unless it belongs to a description. The node stays in the fabric, without
// cables. An unknown or ambiguous name, or a port or node without a cable, is an error that
// leaves the fabric unchanged.
func (f *Fabric) Fail(spec string) (what string, err error) {
	node, err := f.findNode(spec)
	if err != nil {
		return "", fmt.Errorf("fail %q: %w", spec, err)
	}
	if node != None {
		what, err = f.failNode(node)
	} else {
		what, err = f.failPort(spec)
		if parts := strings.Split(spec, ","); err != nil && len(parts) > 1 {
			return f.failEach(parts)
		}
	}
	if err != nil {
		return "", fmt.Errorf("fail %q: %w", spec, err)
	}
	return what, nil
}

// failEach removes all parts or, if one of them cannot be removed, none.
func (f *Fabric) failEach(parts []string) (string, error) {
	var gone []string
	without := f.Clone()
	for _, part := range parts {
		what, err := without.Fail(strings.TrimSpace(part))
		if err != nil {
			return "", err
		}
		gone = append(gone, what)
	}
	*f = *without
	return strings.Join(gone, ", "), nil
}

// findNode returns the node with this description or GUID, or the host of this name,
// None when there is none. Descriptions win over GUIDs, which may be of a port, and these
// over host names.
func (f *Fabric) findNode(name string) (int32, error) {
	for _, means := range []func(*Node) bool{
		func(n *Node) bool { return n.Name == name && name != "" },
		func(n *Node) bool { return n.Name == withGUID(name, n.GUID) }, // see Named
	} {
		if node, err := named(f, name, means); node != None || err != nil {
			return node, err
		}
	}
	if g, err := ib.ParseGUID(name); err == nil {
		if node := f.Find(g); node != None {
			return node, nil
		}
		return int32(slices.IndexFunc(f.Nodes, func(n Node) bool {
			return n.Kind == Adapter && slices.ContainsFunc(n.Ports, func(p Port) bool { return p.GUID == g })
		})), nil
	}
	return named(f, name, func(n *Node) bool { return n.Kind == Adapter && ib.SameHost(ib.FirstWord(n.Name), name) })
}

// named returns the one node that a name means, None when there is none.
func named(f *Fabric, name string, means func(*Node) bool) (int32, error) {
	var found []int32
	for i := range f.Nodes {
		if means(&f.Nodes[i]) {
			found = append(found, int32(i))
		}
	}
	switch len(found) {
	case 0:
		return None, nil
	case 1:
		return found[0], nil
	}
	var guids []string
	for _, n := range found[:min(8, len(found))] {
		guids = append(guids, f.Nodes[n].GUID.String())
	}
	if len(found) > 8 {
		guids = append(guids, "…")
	}
	return None, fmt.Errorf("%d nodes are called %q: say which by its GUID: %s", len(found), name, strings.Join(guids, ", "))
}

// failNode disconnects all cables of a node.
func (f *Fabric) failNode(node int32) (string, error) {
	cables := 0
	n := &f.Nodes[node]
	for p := range n.Ports {
		if n.Ports[p].Connected() {
			f.Disconnect(PortRef{node, uint8(p)})
			cables++
		}
	}
	switch cables {
	case 0:
		return "", fmt.Errorf("%s has no cable", n)
	case 1:
		return n.Label() + " with 1 cable", nil
	}
	return fmt.Sprintf("%s with %d cables", n.Label(), cables), nil
}

// end is a port of a node as messages print it and people write it: "Leaf007/31",
// "Leaf007/P31", "Leaf007:31", "Leaf007 port 31", each also with the cable's other end.
var end = regexp.MustCompile(`^(.*\S)(?: port |/[Pp]?|:)(\d+)$`)

// CutPort splits the name of a port, in any form that messages print, into the node's name
// and the port's digits. The text after a last slash is not required to be digits.
func CutPort(spec string) (node, port string, ok bool) {
	spec, _, _ = strings.Cut(spec, " – ")
	if m := end.FindStringSubmatch(spec); m != nil {
		return m[1], m[2], true
	}
	slash := strings.LastIndexByte(spec, '/')
	if slash < 0 {
		return spec, "", false
	}
	return spec[:slash], spec[slash+1:], true
}

// NodePort returns what names a port of a node in the form NODE/PORT; other text stays.
func NodePort(spec string) string {
	if near, _, _ := strings.Cut(spec, " – "); end.MatchString(near) {
		return end.ReplaceAllString(near, "$1/$2")
	}
	return spec
}

// failPort disconnects the cable of spec's port.
func (f *Fabric) failPort(spec string) (string, error) {
	name, digits, ok := CutPort(spec)
	if !ok {
		return "", f.noSuchNode(spec)
	}
	node, err := f.findNode(name)
	if err != nil {
		return "", err
	}
	if node == None {
		return "", f.noSuchNode(name)
	}
	n := &f.Nodes[node]
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is not a port of %s: a decimal number from 1 to %d was expected", digits, n, len(n.Ports)-1)
	}
	if port == 0 || int(port) >= len(n.Ports) {
		return "", fmt.Errorf("port %d is not on %s: its ports are 1 to %d", port, n, len(n.Ports)-1)
	}
	ref := PortRef{node, uint8(port)}
	if !f.At(ref).Connected() {
		return "", fmt.Errorf("port %d of %s has no cable", port, n)
	}
	what := f.CableLabel(ref)
	f.Disconnect(ref)
	return what, nil
}

// noSuchNode returns the error for an unknown node name, with the closest name.
func (f *Fabric) noSuchNode(name string) error {
	hint := ib.DidYouMean(name, func(yield func(string) bool) {
		for i := range f.Nodes {
			if label := f.Nodes[i].Label(); !yield(label) || !yield(ib.FirstWord(label)) {
				return
			}
		}
	})
	return fmt.Errorf("no node has the description or GUID %q%s", name, hint)
}

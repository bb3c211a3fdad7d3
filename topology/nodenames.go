package topology

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// NodeNames are names that an operator gives to nodes, by GUID: a node-name map, as OpenSM
// and the diagnostic tools read it.
type NodeNames map[GUID]string

// ReadNodeNames reads a node-name map: lines `0x0008f10403961354 "name"`; what follows a #
// does not count, nor does a line of another form.
func ReadNodeNames(data []byte) NodeNames {
	names := NodeNames{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if tab := strings.IndexByte(word, '\t'); tab >= 0 {
			word, rest = word[:tab], word[tab+1:]+" "+rest
		}
		name := strings.Trim(strings.TrimSpace(rest), `"`)
		if guid, err := ParseGUID(word); err == nil && name != "" {
			names[guid] = name
		}
	}
	return names
}

// Named is the fabric with the names of a map, and with its GUID behind the name of each
// switch that shares its name with another node: unmanaged switches are all called alike.
// Where that changes nothing, it is the fabric itself.
func Named(f *Fabric, names NodeNames) *Fabric {
	out := make([]string, len(f.Nodes))
	count := make(map[string]int, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		out[i] = n.Name
		if name := names[n.GUID]; name != "" {
			out[i] = name
		}
		count[out[i]]++
	}
	changed := false
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind == Switch && count[out[i]] > 1 && out[i] != "" {
			out[i] = withGUID(out[i], n.GUID)
		}
		changed = changed || out[i] != n.Name
	}
	if !changed {
		return f
	}
	g := &Fabric{Nodes: slices.Clone(f.Nodes), SM: f.SM}
	for i := range g.Nodes {
		g.Nodes[i].Name = out[i]
	}
	return g
}

// withGUID is a name that others have too.
func withGUID(name string, g GUID) string { return fmt.Sprintf("%s (%s)", name, g) }

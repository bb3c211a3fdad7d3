package topology

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/forsd/forsd/ib"
)

// NodeNames are names that an operator gives to nodes, by GUID: a node-name map, as OpenSM
// and the diagnostic tools read it.
type NodeNames map[ib.GUID]string

// ReadNodeNames parses a node-name map with lines `0x0008f10403961354 "name"`. The text
// after a # and lines of another form are ignored.
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
		if guid, err := ib.ParseGUID(word); err == nil && name != "" {
			names[guid] = name
		}
	}
	return names
}

// Named returns the fabric with the names of a map, and with the GUID appended to the name
// of each switch that shares its name with another node: unmanaged switches all have the
// same name. If that changes nothing, it returns f itself.
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

// withGUID returns a name that others have too.
func withGUID(name string, g ib.GUID) string { return fmt.Sprintf("%s (%s)", name, g) }

package liquid

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// maxPairs bounds the pairs of a list.
const maxPairs = 1 << 22

// ParsePairs parses a list of pairs, one per line: source and destination, separated
// by a comma; # begins a comment. name is used in errors.
func ParsePairs(data []byte, name string) ([][2]string, error) {
	var pairs [][2]string
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		src, dst, ok := strings.Cut(line, ",")
		src, dst = strings.TrimSpace(src), strings.TrimSpace(dst)
		if !ok || src == "" || dst == "" || strings.Contains(dst, ",") {
			return nil, fmt.Errorf("%s line %d is %.60q: want a source, a comma and a destination", name, i+1, line)
		}
		if pairs = append(pairs, [2]string{src, dst}); len(pairs) > maxPairs {
			return nil, fmt.Errorf("%s line %d: at most %d pairs can be read", name, i+1, maxPairs)
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s has no pairs: want lines with a source, a comma and a destination", name)
	}
	return pairs, nil
}

// Pairs turns the words of a list into pairs of nodes of the network.
func (n *Network) Pairs(words [][2]string) ([]Pair, error) {
	return resolve(words, func(word string) (int32, error) {
		node, err := strconv.Atoi(word)
		if err != nil || node < 0 || node >= n.Nodes() {
			return 0, fmt.Errorf("%q is not a node of network %s: want a number from 0 to %d", word, n.Name, n.Nodes()-1)
		}
		return int32(node), nil
	})
}

// resolve looks up the words of a list.
func resolve(words [][2]string, find func(string) (int32, error)) ([]Pair, error) {
	pairs := make([]Pair, len(words))
	for i, w := range words {
		var err error
		if pairs[i].Src, err = find(w[0]); err != nil {
			return nil, fmt.Errorf("pair %d: %w", i+1, err)
		}
		if pairs[i].Dst, err = find(w[1]); err != nil {
			return nil, fmt.Errorf("pair %d: %w", i+1, err)
		}
	}
	return pairs, nil
}

// Directory finds host ports by name.
type Directory struct {
	f     *topology.Fabric
	hosts []topology.EndPort
	at    map[string][]int32 // indices by GUID and description
	words map[string][]int32 // and by first word of the description
}

// NewDirectory makes the directory of the hosts of a fabric.
func NewDirectory(f *topology.Fabric, hosts []topology.EndPort) *Directory {
	d := &Directory{f, hosts, make(map[string][]int32), make(map[string][]int32)}
	for i, h := range hosts {
		n := &f.Nodes[h.Node]
		d.at[h.GUID.String()] = append(d.at[h.GUID.String()], int32(i))
		if n.GUID != h.GUID {
			d.at[n.GUID.String()] = append(d.at[n.GUID.String()], int32(i))
		}
		d.at[n.Name] = append(d.at[n.Name], int32(i))
		if first := strings.Fields(n.Name); len(first) > 0 {
			d.words[first[0]] = append(d.words[first[0]], int32(i))
		}
	}
	return d
}

// Find returns the index of the host port with this port GUID, node GUID, description,
// or first word of its description, in this order. It fails if no port or several
// ports have that name.
func (d *Directory) Find(name string) (int32, error) {
	places := d.at[name]
	if g, err := ib.ParseGUID(name); err == nil && len(places) == 0 {
		places = d.at[g.String()]
	}
	if len(places) == 0 {
		places = d.words[name]
	}
	switch len(places) {
	case 0:
		return 0, fmt.Errorf("no host port with a cable and a LID is called %.80q: give its description or GUID", name)
	case 1:
		return places[0], nil
	}
	return 0, fmt.Errorf("%d host ports are called %.80q, among them %s and %s: give a port GUID", len(places), name,
		d.hosts[places[0]].GUID, d.hosts[places[1]].GUID)
}

// Only returns the hosts with these names, in the order of the directory, each once.
func (d *Directory) Only(names []string) ([]topology.EndPort, error) {
	wanted := make([]bool, len(d.hosts))
	for _, name := range names {
		i, err := d.Find(name)
		if err != nil {
			return nil, err
		}
		wanted[i] = true
	}
	var hosts []topology.EndPort
	for i, h := range d.hosts {
		if wanted[i] {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// Pairs turns the words of a list into pairs of hosts.
func (d *Directory) Pairs(words [][2]string) ([]Pair, error) { return resolve(words, d.Find) }

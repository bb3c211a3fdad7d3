package topology

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
)

// device matches the name of an adapter in a node description, after the host's name. The
// descriptions that Mellanox's scripts give, HCA-1 and so on, count from 1, the kernel's names
// from 0.
var (
	device       = regexp.MustCompile(`(?i)^(hca[-_]?|mlx\d+_|ib[ps]?|rdma|rocep)\d\w*$`)
	deviceNumber = regexp.MustCompile(`(?i)^(hca[-_]?|mlx\d+_)(\d+)$`)
)

// adapterName returns the name by which adapters of different hosts are compared.
func adapterName(word string) string {
	m := deviceNumber.FindStringSubmatch(word)
	if m == nil {
		return word
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return word
	}
	if strings.EqualFold(m[1][:1], "h") {
		n--
	}
	return "adapter " + strconv.Itoa(n)
}

// The shares by which Rails accepts what it finds.
const (
	// railHosts is the share of the hosts with several adapters that have a rail's.
	railHosts = 0.5
	// railPorts is the share of the servers that are in a rail.
	railPorts = 0.9
)

// adapterOf returns the host and the adapter of a port.
type adapterOf struct{ host, adapter string }

// Rails divides the servers of a tree into rails: each has one adapter of every host. Ports
// are of one host if their adapters share a system image GUID, or else if the first words of
// their descriptions are the same; an adapter is known by the second word, such as mlx5_3, or
// else by its place among those of its system image. Ports without such a description join
// the rail of most others on their leaf. Hosts with at most half of the adapters take no
// part. notes say what was found. An error says why these are not rails.
func Rails(t *FatTree) (x *Exchanges, notes []string, err error) {
	known := adapters(t)
	hosts := map[string][]string{} // [host] its adapters
	for _, a := range known {
		hosts[a.host] = append(hosts[a.host], a.adapter)
	}
	count, several := map[string]int{}, 0 // [adapter] hosts with several
	for _, adapters := range hosts {
		if len(adapters) > 1 {
			several++
			for _, a := range adapters {
				count[a]++
			}
		}
	}
	x = &Exchanges{Of: map[ib.GUID]int{}}
	for adapter, n := range count {
		if float64(n) >= railHosts*float64(several) {
			x.Names = append(x.Names, adapter)
		}
	}
	slices.SortFunc(x.Names, natural)
	if len(x.Names) < 2 {
		return nil, nil, fmt.Errorf("no rails are recognised: %d of %d servers have a description of a host and its adapter, such as \"node7 mlx5_3\", or share a system image GUID, and %d hosts have several adapters of the same names: give the groups in a file",
			len(known), len(t.Servers), several)
	}
	least := len(x.Names)/2 + 1 // adapters of a host that takes part
	full := func(host string) bool {
		return len(hosts[host]) >= least && len(slices.DeleteFunc(slices.Clone(hosts[host]), func(a string) bool { return !slices.Contains(x.Names, a) })) >= least
	}
	on := make([][]int, len(t.Leaves)) // [leaf][rail] ports
	for l := range on {
		on[l] = make([]int, len(x.Names))
	}
	var unnamed []int
	var out, strays []string
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		a, named := known[i]
		switch rail := slices.Index(x.Names, a.adapter); {
		case !named:
			unnamed = append(unnamed, i)
		case rail < 0 || !full(a.host):
			out = append(out, h.Name)
		default:
			x.Of[h.GUID] = rail
			on[h.Leaf][rail]++
		}
	}
	// ofLeaf returns the rail of most ports of a leaf, −1 if there is none.
	ofLeaf := func(l int) int {
		all := 0
		for _, n := range on[l] {
			all += n
		}
		return slices.IndexFunc(on[l], func(n int) bool { return 2*n > all })
	}
	joined := 0
	for _, i := range unnamed {
		h := &t.Hosts[i]
		if rail := ofLeaf(h.Leaf); rail >= 0 {
			x.Of[h.GUID] = rail
			joined++
		} else {
			out = append(out, h.Name)
		}
	}
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		if rail, in := x.Of[h.GUID]; in && ofLeaf(h.Leaf) >= 0 && ofLeaf(h.Leaf) != rail {
			strays = append(strays, h.Name+" on "+t.Leaves[h.Leaf].Name)
		}
	}
	notes = append(notes, fmt.Sprintf("%d rails by %d hosts: %s", len(x.Names), several, x.sizes()))
	if joined > 0 {
		notes = append(notes, fmt.Sprintf("in the rail of their leaf, because their descriptions name no adapter: %d", joined))
	}
	if len(strays) > 0 {
		notes = append(notes, fmt.Sprintf("on leaves of another rail, perhaps by swapped cables: %s", Few(strays)))
	}
	if len(out) > 0 {
		notes = append(notes, fmt.Sprintf("in no rail, and without a part in an exchange: %s", Few(out)))
	}
	if float64(len(x.Of)) < railPorts*float64(len(t.Servers)) {
		return nil, nil, fmt.Errorf("no rails are recognised: of %d servers only %d are in one (%s): give the groups in a file, or exclude the hosts that have no rails",
			len(t.Servers), len(x.Of), strings.Join(notes, "; "))
	}
	return x, notes, nil
}

// adapters returns the host and the adapter of each server, by index into Hosts, that has
// them.
func adapters(t *FatTree) map[int]adapterOf {
	known, images := map[int]adapterOf{}, map[ib.GUID][]int{}
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		if image := t.Fabric.Nodes[h.Node].System; image != 0 {
			images[image] = append(images[image], i)
		}
		words := strings.Fields(h.Name)
		for _, word := range words[min(1, len(words)):] {
			if device.MatchString(word) {
				known[i] = adapterOf{words[0], adapterName(word)}
				break
			}
		}
	}
	for image, ports := range images {
		if len(ports) < 2 {
			continue
		}
		slices.SortFunc(ports, func(i, j int) int { return cmp.Compare(t.Hosts[i].GUID, t.Hosts[j].GUID) })
		host, distinct := image.String(), map[string]bool{}
		for _, i := range ports {
			if a, named := known[i]; named {
				host = a.host
				distinct[a.adapter] = true
			}
		}
		for place, i := range ports {
			a, named := known[i]
			switch {
			case len(distinct) == len(ports): // an adapter each
			case named: // several ports of an adapter
				known[i] = adapterOf{host, a.adapter + "/" + strconv.Itoa(int(t.Hosts[i].Port))}
			default:
				known[i] = adapterOf{host, "place " + strconv.Itoa(place)}
			}
		}
	}
	return known
}

// sizes lists the rails with their numbers of servers.
func (x *Exchanges) sizes() string {
	count := make([]int, len(x.Names))
	for _, i := range x.Of {
		count[i]++
	}
	var out []string
	for i, name := range x.Names {
		out = append(out, fmt.Sprintf("%s with %d", name, count[i]))
	}
	return strings.Join(out, ", ")
}

// Few lists the first of some names.
func Few(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// digits splits a name into numbers and the text between them.
var digits = regexp.MustCompile(`\d+|\D+`)

// natural compares names with numbers in order of the numbers: mlx5_2 is before mlx5_10.
func natural(a, b string) int {
	return slices.CompareFunc(digits.FindAllString(a, -1), digits.FindAllString(b, -1), func(x, y string) int {
		n, err := strconv.Atoi(x)
		m, err2 := strconv.Atoi(y)
		if err == nil && err2 == nil && n != m {
			return cmp.Compare(n, m)
		}
		return cmp.Compare(x, y)
	})
}

package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// ErrNoMember is returned by PlanJob if none of the job's servers is in the fabric.
var ErrNoMember = errors.New("none of the job's hosts is attached to the fabric")

// PlanJob plans the complete exchange among some servers of the tree, given by port GUID,
// over the lanes that are up, and verifies it on each of the tables, at least one. Members
// that the tree lacks are left out; the others are the servers of the schedule's tree, in
// its order. Any host on a leaf can be a member, including bystanders. If tables follow
// from the fabric's plan (Settings.TablesFollow), the lane of a transfer is given by those
// tables for the destination's LIDs, and the engine is conservative.
func PlanJob(ctx context.Context, t *topology.FatTree, members []ib.GUID, s Settings, on ...*lft.Tables) (*Schedule, error) {
	return s.planJob(ctx, s.Apart(t), members, on)
}

func (s Settings) planJob(ctx context.Context, t *topology.FatTree, members []ib.GUID, on []*lft.Tables) (*Schedule, error) {
	if len(on) == 0 {
		return nil, errors.New("plan a job: the tables in force are not known")
	}
	sub := Restrict(t, members)
	if len(sub.Servers) == 0 {
		return nil, ErrNoMember
	}
	lids, err := s.groups(t)
	if err != nil {
		return nil, err
	}
	var schedule *Schedule
	if lids > 0 {
		schedule, err = carriedBy(ctx, sub, lids, on)
	} else if schedule, err = (Settings{LIDs: LaneLIDs}).plan(ctx, sub); err == nil {
		schedule, err = schedule.Verified(ctx, on...)
	}
	if err != nil {
		return nil, err
	}
	// The warning about too few LIDs belongs to the fabric's plan.
	schedule.Warnings = slices.DeleteFunc(schedule.Warnings, func(w Warning) bool { return w.Code == LMCTooSmall })
	return schedule, nil
}

// Restrict returns the tree whose servers are the hosts on leaves with one of the port
// GUIDs; all others are bystanders.
func Restrict(t *topology.FatTree, members []ib.GUID) *topology.FatTree {
	wanted := make(map[ib.GUID]bool, len(members))
	for _, g := range members {
		wanted[g] = true
	}
	return topology.With(t, func(c *topology.Common) {
		c.Servers, c.Exchanges = nil, nil
		for i := range t.Hosts {
			if h := &t.Hosts[i]; wanted[h.GUID] && h.Leaf >= 0 && h.LID != 0 && !h.Out {
				c.Servers = append(c.Servers, i)
			}
		}
	})
}

// Member is a host port that belongs to a job.
type Member struct {
	GUID ib.GUID `json:"guid"`
	Name string  `json:"name"` // its description when the job was created
}

// ErrUnknownHost is returned for a name that matches no host port.
var ErrUnknownHost = errors.New("no host has the name, port GUID or LID")

// FindMembers finds host ports, each by its description, the first word of that, its port
// GUID (0x…) or any of its LIDs, in this order; and last by the first word as a host name,
// ignoring case, and ignoring the domain if only one of the two names has one. Absent ports
// are found by their entries in the baseline. If several ports match, one that takes part
// in the fabric's exchange is preferred; if that does not decide, an error lists them. Each
// port may be named once. A host that is not found is an error that wraps ErrUnknownHost.
func FindMembers(t *topology.FatTree, names []string) ([]Member, error) {
	members, _, err := newDirectory(t).members(names, false)
	return members, err
}

// FindKnownMembers is FindMembers, but returns the names of hosts that are not found
// instead of failing.
func FindKnownMembers(t *topology.FatTree, names []string) (members []Member, unknown []string, err error) {
	return newDirectory(t).members(names, true)
}

// members finds ports by names, each port once.
func (d *directory) members(names []string, skip bool) (members []Member, unknown []string, err error) {
	by := make(map[ib.GUID]string, len(names))
	for _, name := range names {
		p, err := d.find(name)
		if skip && errors.Is(err, ErrUnknownHost) {
			unknown = append(unknown, name)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if other, twice := by[p.GUID]; twice {
			return nil, nil, fmt.Errorf("hosts %.80q and %.80q are the same port, %s", other, name, p.GUID)
		}
		by[p.GUID] = name
		members = append(members, p.Member)
	}
	return members, unknown, nil
}

// port is a host port that can be found.
type port struct {
	Member
	leaf    int // −1 on a spine
	server  bool
	present bool
}

// directory maps names to host ports.
type directory struct {
	ports []port
	names map[string][]int // descriptions, index of ports
	words map[string][]int // their first words
	hosts map[string][]int // these in lower case, up to their first dot
	guids map[ib.GUID]int
	lids  map[ib.LID]int
}

func newDirectory(t *topology.FatTree) *directory {
	d := &directory{names: map[string][]int{}, words: map[string][]int{}, hosts: map[string][]int{}, guids: map[ib.GUID]int{}, lids: map[ib.LID]int{}}
	for i := range t.Hosts {
		h := &t.Hosts[i]
		for j := range 1 << h.LMC {
			if h.LID != 0 {
				d.lids[h.LID+ib.LID(j)] = len(d.ports)
			}
		}
		d.add(port{Member{h.GUID, h.Name}, h.Leaf, h.Server, true})
	}
	for l := range t.Baseline.Leaves {
		for _, s := range t.Baseline.Leaves[l].Slots {
			if _, known := d.guids[s.GUID]; s.GUID != 0 && !known {
				d.add(port{Member{s.GUID, s.Name}, l, true, false})
			}
		}
	}
	return d
}

func (d *directory) add(p port) {
	n := len(d.ports)
	d.ports = append(d.ports, p)
	d.guids[p.GUID] = n
	if p.Name != "" {
		d.names[p.Name] = append(d.names[p.Name], n)
		word := ib.FirstWord(p.Name)
		if word != p.Name {
			d.words[word] = append(d.words[word], n)
		}
		short, _, _ := strings.Cut(strings.ToLower(word), ".")
		d.hosts[short] = append(d.hosts[short], n)
	}
}

// find finds one port.
func (d *directory) find(name string) (port, error) {
	for _, places := range [][]int{d.names[name], d.words[name]} {
		if len(places) > 0 {
			return d.choose(name, places)
		}
	}
	if place, ok := d.number(name); ok {
		return d.choose(name, []int{place})
	}
	if places := d.sameHost(name); len(places) > 0 {
		return d.choose(name, places)
	}
	if places := d.truncated(name); len(places) > 0 {
		return d.choose(name, places)
	}
	return port{}, d.unknown(name)
}

// unknown returns the error for a name that matches no port.
func (d *directory) unknown(name string) error {
	hint := ib.DidYouMean(name, func(yield func(string) bool) {
		for i := range d.ports {
			if full := d.ports[i].Name; !yield(ib.FirstWord(full)) || !yield(full) {
				return
			}
		}
	})
	return fmt.Errorf("%w %.80q%s (forsctl topology --json lists them)", ErrUnknownHost, name, hint)
}

// A node description has 64 bytes, and drivers terminate it with a zero byte.
const mostDescribed = 63

// truncated lists the ports of a host whose name exceeds a description.
func (d *directory) truncated(name string) []int {
	if len(name) < mostDescribed {
		return nil
	}
	places := d.names[name[:mostDescribed]]
	if len(places) == 0 && len(name) > mostDescribed {
		places = d.names[name[:mostDescribed+1]]
	}
	return places
}

// sameHost lists the ports whose host name equals name, ignoring case.
func (d *directory) sameHost(name string) (places []int) {
	short, _, _ := strings.Cut(strings.ToLower(name), ".")
	for _, i := range d.hosts[short] {
		if ib.SameHost(name, ib.FirstWord(d.ports[i].Name)) {
			places = append(places, i)
		}
	}
	return places
}

// number finds a port by its GUID or one of its LIDs.
func (d *directory) number(text string) (place int, ok bool) {
	if g, err := ib.ParseGUID(text); err == nil && strings.HasPrefix(text, "0x") {
		place, ok = d.guids[g]
		return place, ok
	}
	if lid, err := strconv.ParseUint(text, 10, 16); err == nil {
		place, ok = d.lids[ib.LID(lid)]
	}
	return place, ok
}

// choose picks one of several matching ports: a present one before an absent one, a server
// before a bystander.
func (d *directory) choose(name string, places []int) (port, error) {
	for _, better := range []func(*port) bool{
		func(p *port) bool { return p.present },
		func(p *port) bool { return p.server },
	} {
		var kept []int
		for _, i := range places {
			if better(&d.ports[i]) {
				kept = append(kept, i)
			}
		}
		if len(kept) > 0 {
			places = kept
		}
	}
	p := d.ports[places[0]]
	if len(places) > 1 {
		text := ""
		for _, i := range places[:min(len(places), 8)] {
			text += fmt.Sprintf(", %s (%s)", d.ports[i].GUID, d.ports[i].Name)
		}
		return p, fmt.Errorf("%d ports are called %.80q: name one by its whole description or its GUID: %s", len(places), name, text[2:])
	}
	if p.leaf < 0 {
		return p, fmt.Errorf("host %.80q is on a spine and can take no part in an exchange", name)
	}
	return p, nil
}

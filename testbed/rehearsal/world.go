package rehearsal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/topology"
)

// part is a switch of the tree, a cable between two, or a host's cable. Port 0 is a whole
// switch.
type part struct {
	name string // as forsd takes it
	at   topology.PortRef
}

// world is a fabric as events have left it.
type world struct {
	start    *topology.FatTree // the fabric before all events
	base     *topology.Baseline
	cables   []part
	hosts    []part
	switches []part
	keep     []int32 // the hosts of the managers: they stay
	lost     int     // ordered pairs of servers that share no lane before all events

	dead    []part // cables that are pulled
	off     []part // the switch that is off
	drained []part
	jobs    int
}

// newWorld is the world of a fabric, which the managers at some hosts see whole.
func newWorld(f *topology.Fabric, base *topology.Baseline, keep ...int32) (*world, error) {
	f = topology.Named(f, nil)
	tree, err := e2e.Fit(f, base)
	if err != nil {
		return nil, err
	}
	w := &world{start: tree, base: base, keep: keep, lost: laneless(tree)}
	nodes := map[int32]string{}
	for _, x := range exclusions.Links(tree) {
		if x.State == topology.Full {
			w.cables = append(w.cables, part{fmt.Sprintf("%s/%d", x.Lower.Name, x.Lower.Port), topology.PortRef{Node: x.Lower.Node, Port: x.Lower.Port}})
			nodes[x.Lower.Node], nodes[x.Upper.Node] = x.Lower.Name, x.Upper.Name
		}
	}
	stays := map[int32]bool{}
	for i := range tree.Hosts {
		at := tree.Hosts[i].At
		if slices.Contains(keep, f.At(at).Peer) {
			stays[at.Node] = true
		} else {
			w.hosts = append(w.hosts, part{f.PortLabel(at), at})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		if !stays[n] {
			w.switches = append(w.switches, part{nodes[n], topology.PortRef{Node: n}})
		}
	}
	return w, nil
}

// laneless counts the ordered pairs of servers that share no lane.
func laneless(t *topology.FatTree) int {
	if t.Pods == nil {
		pairs, _ := planner.LaneLess(t)
		return pairs
	}
	none := 0.0
	var left *planner.TooManyUnreachable
	if errors.As(podplan.Settings{MaxUnreachable: &none}.MayPlan(t.Pods), &left) {
		return left.Pairs
	}
	return 0
}

// ports are the cables that some parts are, each by one of its ends.
func (w *world) ports(parts ...part) (out []topology.PortRef) {
	add := func(at topology.PortRef) {
		p := w.start.Fabric.At(at)
		if far := (topology.PortRef{Node: p.Peer, Port: p.PeerPort}); p.Connected() && far.Node < at.Node {
			at = far
		}
		if p.Connected() && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	for _, p := range parts {
		if p.at.Port != 0 {
			add(p.at)
			continue
		}
		for i := range w.start.Fabric.Nodes[p.at.Node].Ports {
			add(topology.PortRef{Node: p.at.Node, Port: uint8(i)})
		}
	}
	return out
}

// down are the ports whose cables carry nothing.
func (w *world) down() []topology.PortRef { return w.ports(slices.Concat(w.dead, w.off)...) }

// without is the fabric without some cables as the managers see it. The error is that they do
// not see each other.
func (w *world) without(ports ...topology.PortRef) (*topology.Fabric, error) {
	f := w.start.Fabric.Clone()
	for _, p := range ports {
		f.Disconnect(p)
	}
	seen := map[int32]bool{w.keep[0]: true}
	for queue := w.keep[:1]; len(queue) > 0; queue = queue[1:] {
		for _, p := range f.Nodes[queue[0]].Ports {
			if p.Connected() && !seen[p.Peer] {
				seen[p.Peer] = true
				queue = append(slices.Clip(queue), p.Peer)
			}
		}
	}
	for _, n := range w.keep {
		if !seen[n] {
			return nil, errors.New("a manager is cut off")
		}
	}
	for i := range f.Nodes {
		if !seen[int32(i)] {
			ports = append(ports, w.ports(part{at: topology.PortRef{Node: int32(i)}})...)
		}
	}
	return w.start.Fabric.Without(ports...), nil
}

// now is the tree as forsd should see it.
func (w *world) now() (*topology.FatTree, error) { return w.see(w.down()...) }

func (w *world) see(without ...topology.PortRef) (*topology.FatTree, error) {
	f, err := w.without(without...)
	if err != nil {
		return nil, err
	}
	return e2e.Fit(f, w.base)
}

// whole reports whether enough is left for a plan without the drained parts that leaves out no
// pair beyond those that it left out before all events.
func (w *world) whole() bool {
	now, err := w.now()
	if err != nil {
		return false
	}
	plan, err := w.see(slices.Concat(w.down(), w.ports(w.drained...))...)
	return err == nil && len(plan.Servers) == len(now.Servers) && 2*len(now.Servers) > len(w.start.Servers)+1 && laneless(plan) <= w.lost
}

// event is a change of the fabric or an order, and a disturbance.
type event struct {
	change string
	where  []string
	with   string
	millis int // from the change to the disturbance
}

// change changes a world; it is nil if the world offers none.
type change struct {
	weight int
	name   string
	take   func(*world, *rand.Rand) []part
}

// changes are in the order in which they are drawn: the same seed, the same events.
var changes = []change{
	{24, "pull", func(w *world, rng *rand.Rand) []part { return w.pull(rng, 1) }},
	{18, "plug", func(w *world, rng *rand.Rand) []part { return w.plug(rng, 1) }},
	{6, "pull", func(w *world, rng *rand.Rand) []part { return w.pull(rng, 2+rng.IntN(5)) }},
	{4, "plug", func(w *world, rng *rand.Rand) []part { return w.plug(rng, 2+rng.IntN(9)) }},
	{8, "host-pull", func(w *world, rng *rand.Rand) []part { return w.cut(rng, w.hosts, 1) }},
	{6, "switch-off", (*world).turnOff},
	{6, "switch-on", func(w *world, rng *rand.Rand) []part { return drop(rng, &w.off, 1) }},
	{8, "drain", (*world).drain},
	{7, "undrain", func(w *world, rng *rand.Rand) []part { return drop(rng, &w.drained, 1) }},
	{8, "job", (*world).job},
	{5, "nothing", func(*world, *rand.Rand) []part { return []part{} }},
}

// add puts some parts of all into a set that does not have them, and returns them.
func add(rng *rand.Rand, set *[]part, all []part, n int) []part {
	left := slices.DeleteFunc(slices.Clone(all), func(p part) bool { return slices.Contains(*set, p) })
	rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	left = left[:min(n, len(left))]
	*set = append(slices.Clip(*set), left...)
	return left
}

// drop takes some parts out of a set, and returns them.
func drop(rng *rand.Rand, set *[]part, n int) []part {
	left := slices.Clone(*set)
	rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	n = min(n, len(left))
	*set = left[n:]
	return left[:n]
}

// pull pulls cables between switches, of which no end is off.
func (w *world) pull(rng *rand.Rand, n int) []part {
	off := w.ports(w.off...)
	return w.cut(rng, slices.DeleteFunc(slices.Clone(w.cables), func(p part) bool { return slices.Contains(off, w.ports(p)[0]) }), n)
}

// cut pulls some of the cables while a tenth of the fabric's are not yet pulled.
func (w *world) cut(rng *rand.Rand, cables []part, n int) []part {
	most := 2 + (len(w.cables)+len(w.hosts))/10
	return add(rng, &w.dead, cables, min(n, most-len(w.dead)))
}

// plug puts cables back, those of hosts as well.
func (w *world) plug(rng *rand.Rand, n int) []part { return drop(rng, &w.dead, n) }

func (w *world) turnOff(rng *rand.Rand) []part {
	if len(w.off) > 0 {
		return nil
	}
	return add(rng, &w.off, w.switches, 1)
}

func (w *world) drain(rng *rand.Rand) []part {
	if len(w.drained) >= 3 {
		return nil
	}
	return add(rng, &w.drained, w.cables, 1)
}

func (w *world) job(*rand.Rand) []part {
	w.jobs++
	return []part{{name: fmt.Sprintf("job%d", w.jobs)}}
}

// disturbances of the programs, and how often, in hundredths of the events.
var disturbances = []struct {
	name  string
	share int
}{{"kill-forsd", 20}, {"kill-opensm", 6}, {"hang-forsd", 2}, {"handover", 4}}

// draw draws an event that fits the world, and carries the world on.
func (w *world) draw(rng *rand.Rand) (e event) {
	if n := rng.IntN(100); n < 32 {
		for _, d := range disturbances {
			if n -= d.share; n < 0 {
				e.with, e.millis = d.name, rng.IntN(300)
				break
			}
		}
	}
	for e.change == "" {
		n := rng.IntN(100)
		for _, c := range changes {
			if n -= c.weight; n >= 0 {
				continue
			}
			was := *w
			if parts := c.take(w, rng); len(parts) == 0 && (c.name != "nothing" || e.with == "") || !w.whole() {
				*w = was
			} else {
				e.change = c.name
				for _, p := range parts {
					e.where = append(e.where, p.name)
				}
			}
			break
		}
	}
	return e
}

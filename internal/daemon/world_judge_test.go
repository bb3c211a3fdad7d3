package daemon

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/topology"
)

// judgement is what the oracles remember.
type judgement struct {
	given map[series]map[uint64][]byte // published tables by number
	seen  map[reader]*published.Plan   // what was published last
	last  map[reader]uint64            // highest number published
	read  uint64                       // the plan that was walked last
	ways  [][]topology.PortRef         // [phase·servers + server] its transfers when it was walked first
	died  []bool                       // [cable] it was down or slow since then
	phase int                          // phases walked

	forgone []bool       // [cable] it is dead, and the plan that was walked last has left it out
	without map[int]bool // leaves drained since all was at rest
	used    []int        // [256·node + port] the phase that took it last
	by      []int        // [as used] the server that did

	contact contact
}

// reader reads the plans of a forsd.
type reader struct {
	side int
	of   series
}

func (j *judgement) init(p *plant) {
	j.died, j.forgone, j.without = make([]bool, len(p.cables)), make([]bool, len(p.cables)), map[int]bool{}
	j.used, j.by = make([]int, 256*len(p.nodes)), make([]int, 256*len(p.nodes))
	j.seen, j.last = map[reader]*published.Plan{}, map[reader]uint64{}
	j.given = map[series]map[uint64][]byte{}
}

// look is what readers see at this moment: it notes new plans, and judges plans and tables.
func (w *world) look() {
	w.flush()
	w.followLead()
	w.each(func() {
		if p := w.forsd; p != nil && p.d != nil {
			w.take(series{}, p.d.state.Plans)
			w.heed(p)
			w.take(series{base: true}, p.d.state.Bases)
			for _, j := range p.d.state.Now().Jobs {
				w.take(series{job: j.ID}, j.Plans)
				w.take(series{job: j.ID, base: true}, j.Bases)
			}
		}
	})
	for i, o := range w.orders {
		if o.done && !o.told {
			o.told = true
			w.judge.contact.answered = time.Now()
			if o.err == nil && o.then != nil {
				o.then()
			}
			if o.err != nil && o.undone != nil {
				o.undone()
			}
			w.note("  order %d, %s: %v", i, o.what, o.err)
		}
	}
	if w.tablesChanged {
		w.tablesChanged = false
		if lead := w.leader(); lead != nil && lead.forsd != nil && lead.forsd.d != nil {
			w.side = lead
			w.judgeBelief("the tables have changed")
			w.judgeDrains("the tables have changed")
			if !w.follow {
				w.judgePlan("the tables have changed", w.forsd.d.state.Plans.Current())
			}
		}
	}
}

// judgeDrains checks that what is safe to pull is not in use.
func (w *world) judgeDrains(when string) {
	if w.spoilt {
		return
	}
	if err := w.unused(false); err != nil {
		w.fail("when %s: %v", when, err)
	}
}

// judgeBelief checks that forsd knows what the switches may hold.
func (w *world) judgeBelief(when string) {
	if err := w.believed(); err != nil && !w.spoilt {
		w.fail("when %s: %v", when, err)
	}
}

// believed checks that each entry in the switches is that of some tables which forsd counts on.
func (w *world) believed() error {
	on := w.forsd.d.desk.Possible()
	if on[0] == nil {
		return nil
	}
	near := w.plant.near(w.manager.host)
	for i := range w.plant.nodes {
		n := &w.plant.nodes[i]
		if !n.isSwitch || n.off || n.blank || !near[i] {
			continue
		}
		if read := on[0].Find(w.plant.guid(i)); read < 0 {
			continue
		}
		for lid, owner := range w.plant.owner {
			if owner >= 0 && n.table[lid] != noEntry && !counted(on, w.plant.guid(i), lid, n.table[lid]) && !n.made(lid) {
				return fmt.Errorf("%s sends LID %d by port %d, which is not in the %d tables that forsd counts on", w.plant.whole.Nodes[i].Name, lid, n.table[lid], len(on))
			}
		}
	}
	return nil
}

// heed has an operator hear of parts that have become safe to pull.
func (w *world) heed(p *process) {
	safe := 0
	for _, d := range p.d.state.Now().Drains {
		if d.State == exclusions.Safe {
			safe++
		}
	}
	if safe > p.safe && w.side == w.leader() {
		w.judgeDrains("it has become safe")
	}
	p.safe = safe
}

// take fetches a plan as a rank does.
func (w *world) take(of series, plans *published.Plans) {
	p := plans.Current()
	j, by := &w.judge, reader{w.number, of}
	if p == nil || p == j.seen[by] {
		return
	}
	text := p.Table.Bytes()
	if j.seen[by] = p; j.given[of] == nil {
		j.given[of] = map[uint64][]byte{}
	}
	before, known := j.given[of][p.Epoch]
	if known && !bytes.Equal(before, text) {
		w.fail("number %d of %+v is given to two plans", p.Epoch, of)
	}
	if p.Table.Epoch() != p.Epoch || p.Table.Job() != of.job {
		w.fail("number %d of %+v is that of a table with the number %d of job %d", p.Epoch, of, p.Table.Epoch(), p.Table.Job())
	}
	if p.Epoch < j.last[by] {
		w.fail("number %d of %+v is given out after %d%s", p.Epoch, of, j.last[by], w.where())
	}
	j.given[of][p.Epoch], j.last[by] = text, p.Epoch
	if !known && of.job == 0 && !of.base {
		w.note("plan %d: %d phases of %d servers", p.Epoch, p.Table.Phases(), p.Table.Servers())
		if w.side == w.leader() {
			w.judgeBelief("a plan is published")
			w.judgePlan("it is published", p)
		}
	} else if !known && w.side == w.leader() && !w.spoilt {
		w.judgeOther("it is published", of, p)
	}
}

// judgeLoops checks that no LID of a host is sent round in a ring.
func (w *world) judgeLoops() {
	p := w.plant
	for i := range p.nodes {
		if !p.nodes[i].isSwitch || p.nodes[i].off {
			continue
		}
		for lid, owner := range p.owner {
			if owner < 0 || p.nodes[owner].isSwitch {
				continue
			}
			ok := false
			if w.way, ok = p.route(w.way[:0], i, lid, false); !ok && len(w.way) >= 2*len(p.nodes) {
				w.fail("LID %d of %s is sent round in a ring: %s", lid, p.whole.Nodes[owner].Name, w.names(w.way[:6]))
				return
			}
		}
	}
}

// mourn remembers which cables have died. A plan that uses them counts as outdated there until
// the next one, or until forsd is at rest with it.
func (w *world) mourn() {
	for c := range w.plant.cables {
		if !w.plant.carries(c) || w.plant.cables[c].slow {
			w.judge.died[c] = true
		}
	}
}

// judgePlan walks every transfer of a plan through the tables of the switches: it arrives, and
// in no phase does a directed cable carry two. A transfer whose lane has died is left out: the
// ranks are told by the next plan.
func (w *world) judgePlan(when string, plan *published.Plan) {
	if plan == nil || w.spoilt || w.set.pair && w.forsd.blind && plan.Epoch == w.forsd.first { // the other forsd's tables may follow a later one
		return
	}
	if err := w.walk(when, plan); err != nil {
		w.fail("%v", err)
	}
}

func (w *world) walk(when string, plan *published.Plan) error {
	p := w.plant
	t := plan.Table
	host, leaves := w.servers(t)
	j := &w.judge
	first := j.read != plan.Epoch
	if first {
		j.read, j.ways = plan.Epoch, make([][]topology.PortRef, t.Phases()*t.Servers())
		if plan.Epoch != w.forsd.first { // otherwise it is one of the process before
			w.forsd.blind = false
			clear(j.died)
		}
	}
	w.mourn()
	undone := func(leaf, lid int) bool { // forsd has yet to hear of it, or has the tables sent again
		return w.unheard(leaf, lid) || !first && w.forsd.d.core.State() != controller.Idle && w.astray(leaf, lid, nil)
	}
	dead := func(r topology.PortRef) bool { return j.died[p.cableAt(int(r.Node), int(r.Port))] }
	for phase := range t.Phases() {
		j.phase++
		for s := range host {
			e := t.At(s, phase)
			if e.SendTo < 0 {
				continue
			}
			to := host[e.SendTo]
			lid := int(e.DLID)
			if host[s] < 0 || to < 0 || lid >= len(p.owner) || p.owner[lid] != to {
				return fmt.Errorf("plan %d, when %s: phase %d sends to LID %d, which is not the destination's", plan.Epoch, when, phase, lid)
			}
			leaf, way := leaves[s], &j.ways[phase*len(host)+s]
			ports, ok := p.route(w.way[:0], leaf, lid, true)
			w.way = ports
			at := -1 // the switch where it is lost
			if n := len(ports); !ok && n > 0 {
				at = int(p.far(ports[n-1]).Node)
			} else if !ok {
				at = leaf
			}
			if first && (ok || at >= 0 && !p.nodes[at].blank) {
				*way = slices.Clone(ports)
			}
			if len(*way) == 0 && !first || at >= 0 && p.nodes[at].blank {
				continue // nobody knows that a switch has just lost its table
			}
			if slices.ContainsFunc(*way, dead) || p.nodes[leaf].off || p.nodes[to].off {
				continue
			}
			if !ok && w.unheard(leaf, lid) {
				continue
			}
			if !ok {
				return fmt.Errorf("plan %d, when %s: the transfer of phase %d from %s to LID %d does not arrive", plan.Epoch, when, phase, p.whole.Nodes[host[s]].Name, lid)
			}
			for _, r := range ports {
				at := 256*int(r.Node) + int(r.Port)
				// A new process mends the tables before it plans: the plan of the one before may meet.
				if other := j.by[at]; j.used[at] == j.phase && !w.forsd.blind && !undone(leaf, lid) && !undone(leaves[other], int(t.At(other, phase).DLID)) {
					return fmt.Errorf("plan %d, when %s: two transfers of phase %d leave %s by port %d: %s to LID %d, meant for %s, and %s to LID %d, meant for %s", plan.Epoch, when, phase, p.whole.Nodes[r.Node].Name, r.Port,
						p.whole.Nodes[host[s]].Name, lid, w.names(j.ways[phase*len(host)+s]), p.whole.Nodes[host[other]].Name, t.At(other, phase).DLID, w.names(j.ways[phase*len(host)+other]))
				}
				j.used[at], j.by[at] = j.phase, s
			}
		}
	}
	if first {
		return w.forgo(plan.Epoch)
	}
	return nil
}

// names lists ports.
func (w *world) names(ports []topology.PortRef) (out []string) {
	for _, r := range ports {
		out = append(out, fmt.Sprintf("%s/%d", w.plant.whole.Nodes[r.Node].Name, r.Port))
	}
	return out
}

// reaches checks that every LID is reached from every switch wherever the fabric joins them.
func (w *world) reaches() error {
	p := w.plant
	for i := range p.nodes {
		if !p.nodes[i].isSwitch || p.nodes[i].off || !w.isLeaf(i) {
			continue
		}
		near := p.near(w.manager.host)
		if !near[i] {
			continue
		}
		for lid, owner := range p.owner {
			if owner < 0 || !near[owner] || p.nodes[owner].isSwitch && !w.joined(i, owner) {
				continue
			}
			ok := false
			if w.way, ok = p.route(w.way[:0], i, lid, false); !ok {
				return fmt.Errorf("LID %d (%s) is not reached from %s", lid, p.whole.Nodes[owner].Name, p.whole.Nodes[i].Name)
			}
		}
	}
	return nil
}

// joined reports whether a live cable joins two switches. Without one, the tables may leave the
// LID of a switch out.
func (w *world) joined(a, b int) bool {
	return a == b || slices.ContainsFunc(w.plant.at[a], func(c int) bool {
		return c >= 0 && w.plant.carries(c) && (int(w.plant.cables[c].a.Node) == b || int(w.plant.cables[c].b.Node) == b)
	})
}

// isLeaf reports whether hosts are attached to a switch.
func (w *world) isLeaf(node int) bool {
	for k, c := range w.plant.at[node] {
		if c >= 0 && !w.plant.nodes[w.plant.far(topology.PortRef{Node: int32(node), Port: uint8(k)}).Node].isSwitch {
			return true
		}
	}
	return false
}

// complete checks that the plan has every ordered pair of the hosts that are there and not
// drained exactly once.
func (w *world) complete(plan *published.Plan, without map[int]bool) error {
	p := w.plant
	t := plan.Table
	near := p.near(w.manager.host)
	server := map[int]int{}
	for s := range t.Servers() {
		server[p.owner[t.Server(s).LID]] = s
	}
	var there []int
	for _, h := range w.hosts() {
		leaf, _ := p.uplink(h)
		_, in := server[h]
		want := near[h] && !without[leaf] && (w.retold != 2 || h != w.hosts()[1])
		if in && want {
			there = append(there, h)
		} else if want {
			return fmt.Errorf("%s is not in the plan", p.whole.Nodes[h].Name)
		}
	}
	pairs := map[[2]int]bool{}
	for phase := range t.Phases() {
		for s := range t.Servers() {
			if e := t.At(s, phase); e.SendTo >= 0 {
				pair := [2]int{s, e.SendTo}
				if pairs[pair] {
					return fmt.Errorf("server %d sends to %d twice", s, e.SendTo)
				}
				pairs[pair] = true
			}
		}
	}
	for _, a := range there {
		for _, b := range there {
			if a != b && !pairs[[2]int{server[a], server[b]}] {
				return fmt.Errorf("%s does not send to %s", p.whole.Nodes[a].Name, p.whole.Nodes[b].Name)
			}
		}
	}
	return nil
}

// patience is how long forsd has to come to rest.
const worldPatience = 5 * time.Minute

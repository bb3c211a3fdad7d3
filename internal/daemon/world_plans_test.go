package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// servers returns the hosts of a plan's servers, −1 where there is none, and their leaves.
func (w *world) servers(t *phasetable.View) (host, leaves []int) {
	p := w.plant
	host, leaves = make([]int, t.Servers()), make([]int, t.Servers())
	for s := range host {
		host[s] = -1
		if n := int(t.Server(s).LID); n < len(p.owner) && p.owner[n] >= 0 {
			host[s] = p.owner[n]
			leaves[s], _ = p.uplink(host[s])
		}
	}
	return host, leaves
}

// judgeOthers walks the plans that are in force beside that of the fabric.
func (w *world) judgeOthers() {
	const when = "all is at rest"
	w.judgeOther(when, series{base: true}, w.forsd.d.state.Bases.Current())
	for _, j := range w.forsd.d.state.Now().Jobs {
		w.judgeOther(when, series{job: j.ID}, j.Plans.Current())
		w.judgeOther(when, series{job: j.ID, base: true}, j.Bases.Current())
	}
}

// judgeOther walks a plan for base LIDs, or one of a job.
func (w *world) judgeOther(when string, of series, plan *published.Plan) {
	if plan == nil || w.forsd.blind {
		return
	}
	if err := w.holds(plan.Table); err != nil {
		w.fail("plan %d of %+v, when %s: %v", plan.Epoch, of, when, err)
	}
}

// holds checks that every transfer of a plan arrives, and that in no phase does a directed cable
// carry two. A transfer whose way leads over a cable that has died is left out.
func (w *world) holds(t *phasetable.View) error {
	p, j := w.plant, &w.judge
	host, leaves := w.servers(t)
	w.mourn()
	for phase := range t.Phases() {
		j.phase++
		for s := range host {
			e := t.At(s, phase)
			if e.SendTo < 0 || host[s] < 0 || host[e.SendTo] < 0 {
				continue
			}
			leaf, to, lid := leaves[s], host[e.SendTo], int(e.DLID)
			if lid >= len(p.owner) || p.owner[lid] != to {
				return fmt.Errorf("phase %d sends to LID %d, which is not the destination's", phase, lid)
			}
			ok := false
			w.way, ok = p.route(w.way[:0], leaf, lid, true)
			if p.nodes[leaf].off || p.nodes[to].off || p.nodes[host[s]].off || p.nodes[leaves[e.SendTo]].off || slices.ContainsFunc(w.way, w.unsure) || !ok && (len(w.way) == 0 && p.nodes[leaf].blank) {
				continue
			}
			if !ok && w.unheard(leaf, lid) {
				continue
			}
			if !ok {
				return fmt.Errorf("the transfer of phase %d from %s to LID %d does not arrive", phase, p.whole.Nodes[host[s]].Name, lid)
			}
			for _, r := range w.way {
				at := 256*int(r.Node) + int(r.Port)
				if other := j.by[at]; j.used[at] == j.phase && !w.unheard(leaf, lid) && !w.unheard(leaves[other], int(t.At(other, phase).DLID)) {
					return fmt.Errorf("two transfers of phase %d leave %s by port %d: %s to LID %d, and %s", phase, p.whole.Nodes[r.Node].Name, r.Port, p.whole.Nodes[host[s]].Name, lid, p.whole.Nodes[host[other]].Name)
				}
				j.used[at], j.by[at] = j.phase, s
			}
		}
	}
	return nil
}

// unsure reports whether a cable has died, or leads to a switch that has lost its table.
func (w *world) unsure(r topology.PortRef) bool {
	far := w.plant.far(r).Node
	return w.judge.died[w.plant.cableAt(int(r.Node), int(r.Port))] || w.plant.nodes[far].isSwitch && w.plant.nodes[far].blank
}

// inUse tells which cables the plan that was walked last takes.
func (w *world) inUse() []bool {
	used := make([]bool, len(w.plant.cables))
	for _, way := range w.judge.ways {
		for _, r := range way {
			used[w.plant.cableAt(int(r.Node), int(r.Port))] = true
		}
	}
	return used
}

// forgo checks that no plan takes a dead cable which the one before has left out, and remembers
// those that this one leaves out and forsd knows to be dead.
func (w *world) forgo(number uint64) error {
	if number == w.forsd.first { // its process has yet to see the fabric
		return nil
	}
	used, known := w.inUse(), w.forsd.d.state.Now().Latest.Fabric
	for c := range used {
		if used[c] && w.judge.forgone[c] {
			return fmt.Errorf("plan %d takes %s, which is dead, and the plan before does not", number, w.name(c))
		}
		at := w.plant.cables[c].a
		node := known.Find(w.plant.guid(int(at.Node)))
		w.judge.forgone[c] = w.plant.trunk(c) && !used[c] && !w.plant.live(c) && (node < 0 || known.Nodes[node].Ports[at.Port].Peer == topology.None)
	}
	return nil
}

// short checks that a plan which forsd has chosen has no more phases than it needs on those spines
// alone to which all cables work and are not kept out of the plan, for reasons that forsd names.
// Otherwise forsd says so.
func (w *world) short() error {
	p, now := w.plant, w.forsd.d.state.Now()
	if w.drainable() == nil || now.Epoch.RollbackOf != 0 || slices.ContainsFunc(w.forsd.d.health.List(time.Now()), func(x health.Warning) bool { return x.Code == "plan-over-bound" || x.Code == "unreachable-pairs" }) {
		return nil
	}
	out, held := w.drainedParts(), slices.Concat(w.isolated(), w.bouncing())
	good := map[int]bool{} // [spine]
	for c := range p.cables {
		if x := &p.cables[c]; p.trunk(c) {
			spine := int(x.a.Node)
			if w.isLeaf(spine) {
				spine = int(x.b.Node)
			}
			if _, seen := good[spine]; !seen {
				good[spine] = !out[exclusions.Part{Kind: exclusions.Spine, GUID: p.guid(spine)}]
			}
			good[spine] = good[spine] && p.carries(c) && !x.slow && !slices.Contains(held, c) && !out[w.cablePart(c)]
		}
	}
	lanes := 0
	for _, all := range good {
		if all {
			lanes++
		}
	}
	t := w.forsd.d.state.Plans.Current().Table
	hosts, most := map[int]int{}, t.Servers()-1
	_, leaves := w.servers(t)
	for _, leaf := range leaves {
		hosts[leaf]++
	}
	for _, n := range hosts {
		most = max(most, (n*(t.Servers()-n)+lanes-1)/max(1, lanes))
	}
	if lanes > 0 && t.Phases() > most {
		return fmt.Errorf("the plan has %d phases, and the %d spines without fault allow %d", t.Phases(), lanes, most)
	}
	return nil
}

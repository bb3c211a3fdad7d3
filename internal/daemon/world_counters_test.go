package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/opensm/umad"
)

// errs has a cable count errors from now on, or no more.
func (w *world) errs(*rand.Rand) {
	for _, c := range w.cablesAbout(one, func(*cable) bool { return true }, func(*cable) {}) {
		x := &w.plant.cables[c]
		x.errors, x.counted = w.plant.errors(c), time.Now()
		if x.perSecond == 0 {
			x.perSecond, x.bad = 1000, true
		} else {
			x.perSecond = 0
		}
		w.note("%s has %d errors a second", w.name(c), x.perSecond)
	}
}

// errors are those that the ends of a cable have counted.
func (p *plant) errors(c int) uint64 {
	x := &p.cables[c]
	if x.perSecond == 0 || !p.live(c) {
		return x.errors
	}
	return x.errors + uint64(time.Since(x.counted).Seconds()*float64(x.perSecond))
}

// count reads the counters for a forsd in rounds, as internal/cables does.
func (w *world) count(p *process) {
	w.after(p.d.cfg.Cables.Every, func() {
		if p.dead {
			return
		}
		w.count(p)
		s := p.d.state.Now()
		if s.Latest == nil || s.Standby {
			return
		}
		now := time.Now()
		round := cables.Round{Began: now.Add(-p.d.cfg.Cables.Every), Ended: now, Asked: map[ib.GUID]time.Time{}, Ports: map[ib.End]umad.PortCounters{}, Failed: map[ib.GUID]error{}}
		leaf, _ := w.plant.uplink(w.manager.host)
		for _, want := range cables.Want(s.Latest.Tree) {
			round.Asked[want.GUID] = now
			node := int(w.plant.whole.Find(want.GUID))
			if _, arrives := w.plant.route(nil, leaf, int(want.LID), false); !arrives || w.plant.nodes[node].off || w.rng.IntN(1000) < w.lossy {
				round.Failed[want.GUID] = errors.New("no answer")
				continue
			}
			for _, port := range want.Ports {
				if c := w.plant.cableAt(node, int(port)); c >= 0 {
					round.Ports[ib.End{GUID: want.GUID, Port: port}] = umad.PortCounters{Counters: ib.Counters{Symbols: w.plant.errors(c)}}
				}
			}
		}
		go func() {
			_ = p.d.inbox.call(p.ctx, func(_ context.Context, l *loop) { l.excluder.read(round) })
		}()
	})
}

// isolated lists the cables that forsd has isolated, or had when it was killed.
func (w *world) isolated() []int {
	lead := w.leader()
	if !w.set.counts || lead == nil || lead.forsd == nil || lead.forsd.d == nil {
		return w.lastIsolated
	}
	var out []int
	for _, end := range lead.forsd.d.cables.Withheld() {
		if c := w.plant.cableAt(int(w.plant.whole.Find(end.GUID)), int(end.Port)); c >= 0 {
			out = append(out, c)
		}
	}
	w.lastIsolated = out
	return out
}

// bouncing lists the cables that forsd holds back because they go down often, as it says.
func (w *world) bouncing() (out []int) {
	lead := w.leader()
	if lead == nil || lead.forsd == nil || lead.forsd.d == nil {
		return nil
	}
	v, held := lead.forsd.d.state.Now().Latest, lead.forsd.d.core.Bouncing()
	if len(held) == 0 || v == nil || v.Tree == nil {
		return nil
	}
	for _, x := range exclusions.Links(v.Tree) {
		if slices.Contains(held, x.Lane) {
			out = append(out, w.plant.cableAt(int(w.plant.whole.Find(x.Lower.GUID)), int(x.Lower.Port)))
		}
	}
	return out
}

// judgeIsolated checks at rest that only cables that had errors, or went down often, are
// isolated or held back, and that no plan uses these.
func (w *world) judgeIsolated() error {
	isolated := w.isolated()
	for _, c := range isolated {
		if x := &w.plant.cables[c]; !x.bad && x.trains < 3 {
			return fmt.Errorf("%s is isolated, and nothing was wrong with it", w.name(c))
		}
	}
	isolated = append(isolated, w.bouncing()...)
	for _, way := range w.judge.ways {
		for _, r := range way {
			if c := w.plant.cableAt(int(r.Node), int(r.Port)); slices.Contains(isolated, c) {
				return fmt.Errorf("the plan uses %s, which is isolated or held back", w.name(c))
			}
		}
	}
	return nil
}

package report

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Available is the availability of a cable of the baseline.
type Available struct {
	Cable  string  `json:"cable"`
	Share  float64 `json:"share"` // of the period, 0 to 1
	Faults int     `json:"faults"`
	Down   []Span  `json:"down"`
}

// Span is a period, such as one in which a cable was down.
type Span struct {
	From time.Time `json:"begins_at"`
	To   time.Time `json:"ends_at"`
}

// change is a transition of a cable or a node to up or down.
type change struct {
	at time.Time
	up bool
}

// track lists the changes of a cable or a node in order.
type track []change

// log is the history of cables and nodes.
type log struct {
	cables map[[2]place]track
	nodes  map[ib.GUID]track
	starts []time.Time // of forsd, which records nothing while it is stopped
}

// pair returns a cable's ends in a canonical order.
func pair(a, b place) [2]place {
	if cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.port, b.port)) > 0 {
		a, b = b, a
	}
	return [2]place{a, b}
}

// readLog reads events, oldest first.
func readLog(entries []api.HistoryEntry) *log {
	l := &log{cables: map[[2]place]track{}, nodes: map[ib.GUID]track{}}
	for i := range entries {
		e := &entries[i]
		if e.Kind == api.KindStart {
			l.starts = append(l.starts, e.At)
		}
		var c topology.Change
		if e.Kind != api.KindLink || json.Unmarshal(e.Data, &c) != nil {
			continue
		}
		at := func(e topology.CableEnd) place { return place{node: e.Node, port: e.Port} }
		switch c.Kind {
		case topology.ChangeCableDown, topology.ChangeCableUp, topology.ChangeCableMoved:
			key := pair(at(c.At), at(c.Peer))
			l.cables[key] = append(l.cables[key], change{e.At, c.Kind != topology.ChangeCableDown})
		case topology.ChangeNodeGone, topology.ChangeNodeNew:
			l.nodes[c.At.Node] = append(l.nodes[c.At.Node], change{e.At, c.Kind == topology.ChangeNodeNew})
		}
	}
	return l
}

// spans returns the times within a period when a track was down, given its state at the end. If
// the recorded changes do not lead to that state, it changed while forsd was stopped, and the
// change is dated to forsd's last start.
func (l *log) spans(t track, p Span, upNow bool) (down []Span) {
	last := upNow
	if len(t) > 0 {
		last = t[len(t)-1].up
	}
	if last != upNow {
		at := t[len(t)-1].at
		for _, s := range l.starts {
			if s.After(at) {
				at = s
			}
		}
		t = append(slices.Clone(t), change{at, upNow})
	}
	up, from := upNow, p.From
	if len(t) > 0 {
		up = !t[0].up // the state before the first change
	}
	for _, c := range append(slices.Clone(t), change{p.To, !up}) {
		if c.up == up && c.at != p.To {
			continue
		}
		at := c.at
		if at.Before(p.From) {
			at = p.From
		}
		if !up && at.After(from) {
			down = append(down, Span{from, at})
		}
		up, from = c.up, at
	}
	return down
}

// join merges spans that touch.
func join(all []Span) (out []Span) {
	slices.SortFunc(all, func(a, b Span) int { return a.From.Compare(b.From) })
	for _, s := range all {
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			if s.To.After(out[n-1].To) {
				out[n-1].To = s.To
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// availability returns how long each wanted cable between switches was up in a period, worst
// first. The entries extend to the present, the state that the fabric shows.
func availability(wanted []Wanted, c *api.Cabling, entries []api.HistoryEntry, period Span, now time.Time) []Available {
	l, w, p := readLog(entries), newWiring(c), Span{period.From, now}
	out := []Available{}
	for i := range wanted {
		if wanted[i].B.Host != 0 {
			continue
		}
		a, errA := w.find(wanted[i].A)
		b, errB := w.find(wanted[i].B)
		if errA != nil || errB != nil {
			continue // several nodes have this name
		}
		la, hasA := w.at[a]
		lb, hasB := w.at[b]
		up := hasA && hasB && la == lb
		_, thereA := w.nameOf[a.node]
		_, thereB := w.nameOf[b.node]
		all := l.spans(l.nodes[a.node], p, thereA)
		all = append(all, l.spans(l.nodes[b.node], p, thereB)...)
		all = append(all, l.spans(l.cables[pair(a, b)], p, up || !thereA || !thereB)...) // it is down anyway while one of its nodes is down
		x := Available{Cable: wanted[i].String(), Share: 1, Down: []Span{}}
		for _, s := range join(all) {
			if s.To.After(period.To) {
				s.To = period.To
			}
			if s.To.After(s.From) {
				x.Down = append(x.Down, s)
				x.Share -= s.To.Sub(s.From).Seconds() / period.To.Sub(period.From).Seconds()
			}
		}
		x.Faults = len(x.Down)
		x.Share = max(0, x.Share)
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Available) int { return cmp.Compare(a.Share, b.Share) })
	return out
}

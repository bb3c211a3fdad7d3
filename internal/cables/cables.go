// Package cables follows the health of the fabric's cables: it reads the counters of switch
// ports in slow rounds, feeds links and counters to the monitor (internal/cablehealth), and
// returns the cables to withhold from the plan, those whose cost must be determined, and
// messages for the operator.
package cables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/topology"
)

// The codes of the warnings about cables.
const (
	Suspect     = "cable-suspect"
	Isolated    = "cable-isolated"
	NotIsolated = "cable-not-isolated"
	Unread      = "cable-counters-unread"
)

// mostHistory is the number of decisions kept for a cable.
const mostHistory = 8

// Parts are the components that a tracker uses.
type Parts struct {
	Settings cablehealth.Settings
	MaxCost  int // maximum number of phases that all isolated cables together may cost
	Log      *zap.Logger
	Health   *health.Tracker
	Say      func(kind string, data any) // publishes an event
}

// Tracker is the state of the cables. It belongs to the daemon's loop; Answer, Count and
// ReadAt are safe for concurrent use.
type Tracker struct {
	Parts
	monitor *cablehealth.Monitor
	cables  map[cablehealth.Cable]cable // of the last tree
	order   []cablehealth.Cable         // ascending
	history map[cablehealth.Cable][]api.CableEvent
	weigh   []cablehealth.Cable // cables whose cost is unknown; the first is being determined
	round   Round               // the last round, without its counters
	traffic traffic

	kept     *Kept  // the last result of Keep
	keptText []byte // its encoding

	shown   atomic.Pointer[shown]
	decided [5]atomic.Uint64 // decisions by kind
}

// cable is a cable of a tree.
type cable struct {
	exclusions.Link
	id   cablehealth.Cable
	slow string // why it is below its rate
	gbps float64
}

// Orders are the actions for the caller.
type Orders struct {
	Withhold bool     // the set of isolated cables has changed
	Cables   []ib.End // the isolated cables
	Text     string   // the decisions in words
	Weigh    *ib.End  // a cable whose cost of isolation is needed, see Weighed; may be nil
}

// New returns a tracker without any data about cables.
func New(parts Parts) *Tracker {
	r := &Tracker{Parts: parts}
	r.Resume(time.Time{}, Kept{})
	return r
}

// Resume restores stored state, either from before a restart or from the other forsd.
func (r *Tracker) Resume(now time.Time, kept Kept) {
	records := map[cablehealth.Cable]cablehealth.Record{}
	today := func(t time.Time) time.Time { return kept.At.Time(now, t) }
	r.history = map[cablehealth.Cable][]api.CableEvent{}
	for _, k := range kept.Cables {
		if k.Record.State != "" {
			records[k.Cable] = k.Record.Moved(today)
		}
		for _, e := range k.History {
			r.history[k.Cable] = append(r.history[k.Cable], api.CableEvent(e))
		}
	}
	r.monitor, r.weigh, r.cables, r.order = cablehealth.New(r.Settings, records), nil, nil, nil
	r.publish()
}

// Kept is the state that survives a restart.
type Kept struct {
	Cables []KeptCable     `json:"cables"`
	At     store.Timestamp `json:"at,omitzero"`
}

// KeptCable is the state of a cable in Kept.
type KeptCable struct {
	Cable   cablehealth.Cable  `json:"cable"`
	Record  cablehealth.Record `json:"record"`
	History []keptEvent        `json:"history,omitempty"`
}

// keptEvent is an api.CableEvent in the form of the file.
type keptEvent struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Leaf   ib.GUID   `json:"leaf"`
	Port   uint8     `json:"port"`
	Phases int       `json:"phases"`
	Text   string    `json:"text"`
}

// Keep returns the state to store, or nil. The pointer is the same until the state changes.
func (r *Tracker) Keep(now time.Time) *Kept {
	records, out := r.monitor.Records(), &Kept{}
	for c := range r.history {
		if _, there := records[c]; !there {
			records[c] = cablehealth.Record{}
		}
	}
	for c, record := range records {
		k := KeptCable{Cable: c, Record: record}
		for _, e := range r.history[c] {
			k.History = append(k.History, keptEvent(e))
		}
		out.Cables = append(out.Cables, k)
	}
	slices.SortFunc(out.Cables, func(a, b KeptCable) int { return cablehealth.Compare(a.Cable, b.Cable) })
	if len(out.Cables) == 0 {
		return nil
	}
	if text, err := json.Marshal(out); err != nil || !bytes.Equal(text, r.keptText) {
		r.kept, r.keptText, out.At = out, text, store.StampNow(now)
		for i := range out.Cables {
			out.Cables[i].Record = out.Cables[i].Record.Moved(func(t time.Time) time.Time { return store.StoredTime(now, t) })
		}
	}
	return r.kept
}

// Withheld lists the isolated cables.
func (r *Tracker) Withheld() (out []ib.End) {
	for _, c := range r.monitor.Isolated() {
		out = append(out, c.Leaf)
	}
	return out
}

// cablesOf lists the cables of a tree.
func cablesOf(t *topology.FatTree) []cable {
	links := exclusions.Links(t)
	out := make([]cable, 0, len(links))
	rate := t.Baseline.Rate
	if t.Pods != nil {
		rate = t.Pods.Baseline.Rate
	}
	want := ib.ParseRate(rate)
	for _, l := range links {
		x := cable{Link: l, id: cablehealth.Cable{Leaf: l.Lower.End, Spine: l.Upper.End},
			gbps: want.Gbps()}
		if l.State != topology.Missing {
			rate := t.Fabric.Nodes[l.Lower.Node].Ports[l.Lower.Port].Rate
			if rate.Known() {
				x.gbps = rate.Gbps()
			}
			if l.State == topology.Degraded {
				x.slow = fmt.Sprintf("it runs at %s instead of %s", rate, want)
			}
		}
		out = append(out, x)
	}
	return out
}

// ascending lists the cables of a tree, ordered by their ends.
func ascending(t *topology.FatTree) []cable {
	out := cablesOf(t)
	slices.SortFunc(out, func(a, b cable) int { return cablehealth.Compare(a.id, b.id) })
	return out
}

// Seen records the current tree, without lanes held back; nil if the fabric is not a tree.
func (r *Tracker) Seen(now time.Time, t *topology.FatTree) {
	if t == nil {
		r.cables, r.order = nil, nil
		return
	}
	before, all := r.cables, ascending(t)
	r.cables, r.order = make(map[cablehealth.Cable]cable, len(all)), make([]cablehealth.Cable, 0, len(all))
	for _, c := range all {
		r.cables[c.id], r.order = c, append(r.order, c.id)
		was, known := before[c.id]
		switch up := c.State == topology.Full; {
		case up && (!known || was.State != topology.Full):
			r.monitor.Step(now, cablehealth.LinkUp{Cable: c.id})
		case !up && (!known || was.State == topology.Full):
			r.monitor.Step(now, cablehealth.LinkDown{Cable: c.id, First: !known})
		}
	}
}

// Want lists the switches and ports whose counters are needed: both ends of all cables that are
// present.
func Want(t *topology.FatTree) []Switch {
	if t == nil {
		return nil
	}
	ports := map[ib.GUID][]uint8{}
	for _, c := range ascending(t) {
		if c.State != topology.Missing {
			ports[c.id.Leaf.GUID] = append(ports[c.id.Leaf.GUID], c.id.Leaf.Port)
			ports[c.id.Spine.GUID] = append(ports[c.id.Spine.GUID], c.id.Spine.Port)
		}
	}
	var out []Switch
	for i := range t.Fabric.Nodes {
		if n := &t.Fabric.Nodes[i]; n.Kind == topology.Switch && len(ports[n.GUID]) > 0 {
			out = append(out, Switch{GUID: n.GUID, Name: n.Label(), LID: n.LID(), Ports: ports[n.GUID]})
		}
	}
	return out
}

// Round records a round of counter readings. It ignores the counters of cables that are aside.
func (r *Tracker) Round(now time.Time, read Round, aside func(ib.End) bool) Orders {
	e := cablehealth.Round{All: r.order}
	for _, id := range r.order {
		c := r.cables[id]
		x := cablehealth.Reading{Cable: id, Gbps: c.gbps, Slow: c.slow, Aside: aside(id.Leaf)}
		if c.State != topology.Missing {
			for i, end := range []ib.End{id.Leaf, id.Spine} {
				if counters, is := read.Ports[end]; is {
					x.Ends[i] = &counters.Counters
				}
			}
		}
		e.Readings = append(e.Readings, x)
	}
	if len(r.order) == 0 {
		e.All = nil // without a fabric, no cables were removed
	}
	read.Ports = nil
	r.round = read
	r.unread()
	if line := r.Log.Check(zap.DebugLevel, "counters"); line != nil {
		line.Write(zap.Int64("at", now.UnixNano()), zap.Any("readings", e.Readings))
	}
	return r.carryOut(r.monitor.Step(now, e))
}

// Measured records what an exchange tells of the cables.
func (r *Tracker) Measured(now time.Time, m *api.Measured) Orders {
	timed := map[ib.End]*api.MeasuredCable{}
	for i := range m.Cables {
		c := &m.Cables[i]
		timed[ib.End{GUID: c.A.GUID, Port: c.A.Port}], timed[ib.End{GUID: c.B.GUID, Port: c.B.Port}] = c, c
	}
	var e cablehealth.Measured
	for _, id := range r.order {
		if c := timed[id.Leaf]; c != nil && c == timed[id.Spine] {
			e = append(e, cablehealth.Measurement{Cable: id, At: m.At, Gbps: c.Gbps, Slowdown: c.Slowdown, Error: c.Error, Transfers: c.Transfers, Slow: c.Slow})
		}
	}
	return r.carryOut(r.monitor.Step(now, e))
}

// Weighed handles the cost of isolating a cable.
func (r *Tracker) Weighed(now time.Time, c ib.End, w Cost) Orders {
	if len(r.weigh) == 0 || c != r.weigh[0].Leaf {
		return Orders{} // no longer needed
	}
	id := r.weigh[0]
	r.weigh = r.weigh[1:]
	refuse := w.Refuse
	if refuse == "" && w.Phases > r.MaxCost {
		refuse = fmt.Sprintf("without it, and all that is isolated, the exchange would take %d phases instead of %d, and at most %d more are allowed (cables.max_cost)", w.With, w.With-w.Phases, r.MaxCost)
	}
	o := r.carryOut(r.monitor.Step(now, cablehealth.Weighed{Cable: id, Phases: w.Phases, Refuse: refuse, Needed: w.Needed}))
	if o.Weigh == nil && len(r.weigh) > 0 {
		o.Weigh = &r.weigh[0].Leaf
	}
	return o
}

// Short handles a plan that leaves out servers, or the lack of one: isolated cables may be needed.
func (r *Tracker) Short(now time.Time) Orders {
	return r.carryOut(r.monitor.Step(now, cablehealth.Short{}))
}

// Release puts an isolated cable on probation, by order of an operator. Either end identifies
// the cable, even while another cable has its place in the fabric.
func (r *Tracker) Release(now time.Time, name string) (Orders, error) {
	names := map[ib.GUID]string{} // of switches
	for _, c := range r.cables {
		names[c.Lower.GUID], names[c.Upper.GUID] = c.Lower.Name, c.Upper.Name
	}
	isolated := r.monitor.Isolated()
	for _, id := range isolated {
		for _, end := range []ib.End{id.Leaf, id.Spine} {
			if port := fmt.Sprintf("/%d", end.Port); name == names[end.GUID]+port || name == end.GUID.String()+port {
				return r.carryOut(r.monitor.Step(now, cablehealth.Release{Cable: id})), nil
			}
		}
	}
	return Orders{}, api.Refused("%.200q is not one of the %d cables that are isolated: name it by one of its ends, such as Leaf007/31", name, len(isolated))
}

// carryOut handles the monitor's actions and returns the orders that follow.
func (r *Tracker) carryOut(actions []cablehealth.Action) Orders {
	var o Orders
	var texts []string
	waited := len(r.weigh) > 0
	defer func() { r.Log.Debug("cables whose costs are looked at", zap.Int("number", len(r.weigh))) }()
	for _, a := range actions {
		switch a := a.(type) {
		case cablehealth.Weigh:
			r.weigh = append(r.weigh, a.Cable)
		case cablehealth.Changed:
			text := r.changed(a)
			if a.To == cablehealth.Isolated || a.From == cablehealth.Isolated {
				o.Withhold, texts = true, append(texts, text)
			}
		case cablehealth.Refused:
			r.tell(a.Cable, api.CableEvent{At: time.Now(), What: "not-isolated",
				Text: fmt.Sprintf("%s stays in the plan: %s; %s", r.label(a.Cable), a.Because, strings.Join(a.Why, "; "))})
		}
	}
	if o.Withhold {
		o.Cables, o.Text = r.Withheld(), strings.Join(texts, "; ")
	}
	if !waited && len(r.weigh) > 0 {
		o.Weigh = &r.weigh[0].Leaf
	}
	r.publish()
	r.warn()
	return o
}

// changed reports a new state of a cable.
func (r *Tracker) changed(a cablehealth.Changed) (text string) {
	e := api.CableEvent{At: a.At, What: string(a.To), Phases: a.Phases}
	label, why := r.label(a.Cable), strings.Join(a.Why, "; ")
	switch {
	case a.To == cablehealth.Isolated:
		e.Text = fmt.Sprintf("%s is isolated, which costs %s: %s", label, phases(a.Phases), why)
	case a.From == cablehealth.Isolated && a.To == cablehealth.Probation:
		e.Text = fmt.Sprintf("%s comes back on probation; it was isolated because of %s", label, why)
		if a.Because != "" {
			e.Text += "; " + a.Because
		}
	case a.To == cablehealth.Suspect:
		e.Text = fmt.Sprintf("%s is not well: %s", label, why)
	default:
		e.Text = fmt.Sprintf("%s is well again", label)
	}
	r.tell(a.Cable, e)
	return e.Text
}

func phases(n int) string {
	switch n {
	case 0:
		return "no phase"
	case 1:
		return "1 phase"
	}
	return fmt.Sprintf("%d phases", n)
}

// kinds lists the decisions in the order of Tracker.decided.
var kinds = [5]string{"suspect", "isolated", "not-isolated", "probation", "good"}

// Kinds lists the kinds of decisions.
func Kinds() []string { return slices.Clone(kinds[:]) }

// tell logs, publishes and keeps a decision.
func (r *Tracker) tell(c cablehealth.Cable, e api.CableEvent) {
	e.Leaf, e.Port = c.Leaf.GUID, c.Leaf.Port
	r.Log.Info("cable", zap.String("decision", e.What), zap.String("text", e.Text))
	r.Say(api.KindCable, e)
	kept := append(slices.Clone(r.history[c]), e)
	r.history[c] = kept[max(0, len(kept)-mostHistory):]
	r.decided[slices.Index(kinds[:], e.What)].Add(1)
}

// label names a cable by its ends.
func (r *Tracker) label(id cablehealth.Cable) string {
	if c, there := r.cables[id]; there {
		return fmt.Sprintf("%s port %d – %s port %d", c.Lower.Name, c.Lower.Port, c.Upper.Name, c.Upper.Port)
	}
	return id.String()
}

// warn raises and clears the warnings about cables.
func (r *Tracker) warn() {
	var found []health.Finding
	r.monitor.Cables(func(id cablehealth.Cable, v cablehealth.View) {
		label, why := r.label(id), strings.Join(v.Verdict, ", ")
		switch {
		case v.State == cablehealth.Isolated:
			found = append(found, health.Finding{Code: Isolated, Text: label + " (" + strings.Join(v.Why, ", ") + ")"})
		case v.Refused != "":
			found = append(found, health.Finding{Code: NotIsolated, Text: fmt.Sprintf("%s (%s): %s", label, why, v.Refused)})
		case v.State == cablehealth.Suspect:
			found = append(found, health.Finding{Code: Suspect, Text: label + " (" + why + ")"})
		}
	})
	r.Health.Set("cables", found, time.Now())
}

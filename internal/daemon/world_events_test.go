package daemon

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// happening is an event of a history. Its number draws the parts that it is about from those
// that the world has when it is played, so that a history without some of its events is one,
// too. An event that names its parts is about these, whatever else the world would allow.
type happening struct {
	kind   string
	number uint64
	after  time.Duration // from the event before
	parts  []string      // nil until they are drawn
	other  string        // "" without a choice
}

func (h happening) String() string {
	text := fmt.Sprintf("%s:%d:%v", h.kind, h.number, h.after)
	if h.parts != nil {
		text += ":" + strings.Join(h.parts, ",")
	}
	return text
}

// parseHistory reads events as String prints them.
func parseHistory(text string) (out []happening, err error) {
	for word := range strings.FieldsSeq(strings.Trim(text, "[]")) {
		parts := strings.Split(word, ":")
		if len(parts) != 3 && len(parts) != 4 {
			return nil, fmt.Errorf("event %q: want KIND:NUMBER:TIME or KIND:NUMBER:TIME:PART,…", word)
		}
		h := happening{kind: parts[0]}
		if h.number, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
			return nil, err
		}
		if h.after, err = time.ParseDuration(parts[2]); err != nil {
			return nil, err
		}
		if len(parts) == 4 {
			h.parts = strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' })
		}
		out = append(out, h)
	}
	return out, nil
}

// kindOfEvent is something that may happen.
type kindOfEvent struct {
	kind   string
	weight int
	do     func(w *world, r *rand.Rand)
	where  func(s worldSettings) bool // nil everywhere
}

func inPairs(s worldSettings) bool    { return s.pair }
func withCounts(s worldSettings) bool { return s.counts }
func withPlugin(s worldSettings) bool { return s.plugin }

var happenings []kindOfEvent

func init() { // events look kinds up
	happenings = []kindOfEvent{
		{"pull", 24, (*world).pull, nil},
		{"plug", 20, (*world).plug, nil},
		{"flap", 6, (*world).flap, nil},
		{"slow", 3, (*world).slow, nil},
		{"errors", 6, (*world).errs, withCounts},
		{"switch", 8, (*world).turnSwitch, nil},
		{"host", 8, (*world).turnHost, nil},
		{"opensm", 4, (*world).restartManager, nil},
		{"kill", 6, (*world).killForsd, nil},
		{"sync", 4, (*world).killAtSync, nil},
		{"stop", 2, (*world).stopForsd, nil},
		{"clock", 2, (*world).stepClock, nil},
		{"absent", 3, (*world).missManager, nil},
		{"apart", 6, (*world).part, inPairs},
		{"handover", 8, (*world).handOver, inPairs},
		{"hup", 2, func(w *world, _ *rand.Rand) { w.manager.hup++ }, nil},
		{"reroute", 3, (*world).reroute, nil},
		{"rollback", 3, (*world).rollback, nil},
		{"reload", 2, (*world).reload, nil},
		{"accept", 1, (*world).accept, nil},
		{"drain", 4, (*world).orderDrain, nil},
		{"undrain", 4, (*world).undrain, nil},
		{"strand", 3, (*world).strand, nil},
		{"lossy", 2, func(w *world, r *rand.Rand) { w.lossy = r.IntN(30) }, nil},
		{"deaf", 2, func(w *world, _ *rand.Rand) { w.manager.deaf = true }, nil},
		{"unsynced", 2, (*world).unsynced, nil},
		{"disk", 5, (*world).spoilDisk, nil},
		{"tables", 3, (*world).spoilTables, nil},
		{"stall", 4, (*world).stall, nil},
		{"unplug", 2, (*world).unplug, withPlugin},
		{"late", 3, (*world).late, withPlugin},
		{"job", 2, (*world).makeJob, nil},
		{"brief", 3, (*world).makeBriefJob, nil},
		{"unjob", 3, (*world).endJob, nil},
		{"endure", 3, (*world).endure, nil},
		{"rest", 12, nil, nil},
	}
}

// draw draws a history. Every other one has some kinds of events often, and others never: what
// needs many of a kind, or none of another, is rare otherwise. Of the two kinds that an event may
// be of, the one is played that is rarer in the state that forsd has then.
func draw(set worldSettings, faults int) []happening {
	r := rand.New(rand.NewPCG(set.seed, 7))
	var kinds []string // each as often as it weighs
	swarm := r.IntN(2) == 0
	for _, k := range happenings {
		if k.where != nil && !k.where(set) {
			continue
		}
		n := 4 * k.weight
		if swarm && k.do != nil {
			n = k.weight * []int{0, 1, 4, 16}[r.IntN(4)]
		}
		kinds = append(kinds, slices.Repeat([]string{k.kind}, n)...)
	}
	kind := func() string { return kinds[r.IntN(len(kinds))] }
	faults = faults/4 + r.IntN(3*faults/2+1)
	var out []happening
	for len(out) < faults {
		h := happening{kind: kind(), number: r.Uint64()}
		if r.IntN(3) == 0 {
			h.other = kind()
		}
		switch r.IntN(4) {
		case 0:
		case 1:
			h.after = time.Duration(r.IntN(20_000)) * time.Microsecond
		case 2:
			h.after = time.Duration(r.IntN(300)) * time.Millisecond
		case 3:
			h.after = time.Duration(r.IntN(4000)) * time.Millisecond
		}
		out = append(out, h)
	}
	return out
}

// happen plays an event.
func (w *world) happen(h happening) {
	if w.pass(time.Now().Add(h.after), nil); w.failure != "" {
		w.played = append(w.played, h) // for the time until then
		return
	}
	w.rng = rand.New(rand.NewPCG(w.set.seed, h.number))
	w.somewhere(rand.New(rand.NewPCG(h.number, 3)))
	if h.other != "" {
		h.kind, h.other = w.rarer(h.kind, h.other), ""
	}
	w.cover.add(w.inState(), h.kind, 1)
	w.event = &h
	if h.kind == "rest" {
		w.rest()
	}
	for _, k := range happenings {
		if k.kind == h.kind && k.do != nil {
			k.do(w, rand.New(rand.NewPCG(h.number, 1)))
		}
	}
	w.played = append(w.played, h)
}

// about returns the parts that the event being played names. If it names none yet, they are
// chosen.
func (w *world) about(choose func(r *rand.Rand) []string) []string {
	if w.event.parts == nil {
		w.event.parts = append([]string{}, choose(rand.New(rand.NewPCG(w.event.number, 1)))...)
	}
	return w.event.parts
}

// cablesAbout is about for cables between switches, of which it chooses some. None is chosen
// that makes too little of the fabric be left when the change is done to all that are chosen.
func (w *world) cablesAbout(some func(r *rand.Rand) int, among func(c *cable) bool, change func(c *cable)) (out []int) {
	names := w.about(func(r *rand.Rand) (names []string) {
		before := slices.Clone(w.plant.cables)
		for range some(r) {
			c, ok := pick(r, w.trunks(among))
			if !ok {
				continue
			}
			x := &w.plant.cables[c]
			was := *x
			change(x)
			worse := x.pulled && !was.pulled || x.slow && !was.slow || x.bounces > was.bounces
			if worse && !w.enough() {
				*x = was
				continue
			}
			names = append(names, w.name(c))
		}
		copy(w.plant.cables, before)
		return names
	})
	for _, name := range names {
		if c := w.cableNamed(name); c >= 0 && among(&w.plant.cables[c]) {
			out = append(out, c)
		}
	}
	return out
}

// one is the number of parts of most events.
func one(*rand.Rand) int { return 1 }

// pick chooses an element; ok is false if there is none.
func pick[T any](r *rand.Rand, all []T) (x T, ok bool) {
	if len(all) == 0 {
		return x, false
	}
	return all[r.IntN(len(all))], true
}

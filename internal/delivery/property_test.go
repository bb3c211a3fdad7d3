package delivery

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/histories"
)

// contents is the highest content of the model's tables: one bit for each lane that they
// carry. unknown is the content of the file before forsd wrote it.
const (
	contents = 7
	unknown  = 7
)

// question is a question of the plugin that has not been answered.
type question struct {
	fabric   int
	deadline time.Time
}

// world is the environment of the core: a disk that may fail, OpenSM with or without its
// plugin, the switches, and a controller that makes before it breaks.
type world struct {
	t   *rapid.T
	c   *Core
	now time.Time
	is  map[*lft.Tables]int // contents

	file     int         // contents of the file
	writing  *lft.Tables // being written; nil if none
	switches int         // contents
	flying   int         // contents on their way to the switches; -1 if none
	asked    map[uint64]question
	number   uint64

	plugin   bool
	sweeping bool // the plugin's OpenSM sweeps
	served   bool // with forsd's tables
	promised bool // the controller counts on this sweep

	fabric  int // of the tables ordered last; -1 if none
	want    int // contents of the tables ordered last
	waiting bool
	loads   bool // Sweep is due
	settles bool
	since   time.Time // when the last of these requests was made
	reading int       // contents being read; -1 if no read-back is under way
	plan    int       // lanes that the plan in force uses
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(0, 0), is: map[*lft.Tables]int{}, file: unknown, flying: -1, asked: map[uint64]question{}, fabric: -1, reading: -1}
	w.c = New(w.tables(unknown), func(a, b *lft.Tables) bool { return w.is[a] != w.is[b] })
	return w
}

// tables returns new tables with the given contents.
func (w *world) tables(contents int) *lft.Tables {
	t := &lft.Tables{}
	w.is[t] = contents
	return t
}

func (w *world) step(e Event) {
	for _, a := range w.c.Step(w.now, e) {
		switch a := a.(type) {
		case WriteFile:
			if w.writing != nil {
				w.t.Fatal("the file is written twice at a time")
			}
			if w.is[a.Tables] != w.want {
				w.t.Fatal("tables are written that were not ordered last")
			}
			w.writing = a.Tables
		case Ordered:
			if !w.waiting {
				w.t.Fatal("an order is answered twice")
			}
			if a.Err != "" && w.plugin {
				w.t.Fatal("a file that cannot be written keeps tables from the plugin")
			}
			w.waiting = false
		case Answer:
			w.answered(a)
		case Sweep:
			w.swept(a.By)
		case Settled:
			if !w.settles {
				w.t.Fatal("settled, and nobody waits for that")
			}
			if a.Err == "" && (w.writing != nil || w.file != w.want) {
				w.t.Fatal("settled, and the file holds other tables")
			}
			w.settles = false
		case Loaded:
			if w.served && w.promised && w.switches != w.want {
				w.t.Fatal("the sweep counted on has loaded other tables")
			}
		}
	}
	w.check()
}

// answered checks an answer to the plugin: it has tables of the requested fabric, in
// time, or none.
func (w *world) answered(a Answer) {
	q, ok := w.asked[a.Number]
	switch {
	case !ok:
		w.t.Fatalf("question %d is answered twice", a.Number)
	case a.Tables != nil && q.fabric != w.fabric:
		w.t.Fatalf("the tables of fabric %d are given for fabric %d", w.fabric, q.fabric)
	case a.Tables != nil && !w.now.Before(q.deadline):
		w.t.Fatal("tables are given after the deadline")
	case a.Tables == nil && q.fabric == w.fabric && w.now.Before(q.deadline):
		w.t.Fatal("tables that are there are not given")
	}
	delete(w.asked, a.Number)
	if a.Tables == nil && !a.Late && a.Why == "" || a.Late && w.now.Before(q.deadline) {
		w.t.Fatalf("none are given for no reason: %v", a)
	}
	if !w.sweeping || !w.plugin {
		return
	}
	if a.Tables == nil {
		w.served, w.flying, w.promised = false, w.file, false // OpenSM loads the file instead
		return
	}
	w.served, w.flying = true, w.is[a.Tables]
}

// swept checks the sweep that is to load the ordered tables.
func (w *world) swept(by How) {
	if !w.loads {
		w.t.Fatal("a sweep is asked for, and nobody wants one")
	}
	w.loads = false
	switch {
	case (by == SweepAlone) == w.plugin:
		w.t.Fatalf("by %v, and the plugin's connection is %v", by, w.plugin)
	case by == ThisSweep && !w.sweeping:
		w.t.Fatal("there is no sweep under way")
	case by == ThisSweep && w.served && w.flying != w.want && w.switches != w.want:
		w.t.Fatal("the sweep under way has older tables")
	case by == LastSweep && (w.sweeping || w.switches != w.want):
		w.t.Fatal("the last sweep has loaded other tables")
	}
	w.promised = by == ThisSweep
}

// check checks the invariants.
func (w *world) check() {
	possible := w.possible()
	if w.read() && !slices.Contains(possible, w.switches) {
		w.t.Fatalf("the switches hold %d, and may hold %v", w.switches, possible)
	}
	if w.plan&^w.switches != 0 {
		w.t.Fatalf("the plan in force uses lanes %03b, and the switches carry %03b", w.plan, w.switches)
	}
	for n, q := range w.asked {
		if !w.now.Before(q.deadline) {
			w.t.Fatalf("question %d waits beyond its deadline", n)
		}
	}
	if (w.loads || w.settles) && w.now.Sub(w.since) > SettleWithin {
		w.t.Fatal("the file is waited for longer than it may")
	}
	if w.c.Match() && w.is[w.c.InSwitches()] != w.want {
		w.t.Fatal("other tables match than those ordered")
	}
	if wake := w.c.Wake(); !wake.IsZero() && !wake.After(w.now) {
		w.t.Fatalf("a tick is wanted for %s, and it is %s", wake, w.now)
	}
}

func (w *world) read() bool { return w.c.Possible()[0] != nil }

// possible lists the contents that the switches may hold according to the core.
func (w *world) possible() []int {
	var out []int
	for _, t := range w.c.Possible() {
		if t != nil {
			out = append(out, w.is[t])
		}
	}
	return out
}

// calm reports whether no action of the controller is under way.
func (w *world) calm() bool { return !w.waiting && !w.loads && !w.settles && w.reading < 0 }

// order orders tables that carry the lanes of the plan in force.
func (w *world) order(fabric, contents int, rewrite bool) {
	if !w.calm() || w.plan&^contents != 0 {
		w.t.Skip("not now")
	}
	w.fabric, w.want, w.waiting, w.since, w.promised = fabric, contents, true, w.now, false
	w.step(Order{Fabric: string(rune('A' + fabric)), Tables: w.tables(contents), Rewrite: rewrite})
	if w.plugin && w.waiting {
		w.t.Fatal("the plugin's tables wait for the file")
	}
}

// publish publishes a plan that holds on all tables that the switches may hold.
func (w *world) publish() {
	if !w.read() {
		w.t.Skip("nothing was read back")
	}
	w.plan = contents
	for _, p := range w.possible() {
		w.plan &= p
	}
	w.check()
}

// written completes the writing of the file.
func (w *world) written(bad bool) {
	if w.writing == nil {
		w.t.Skip("nothing is being written")
	}
	t := w.writing
	w.writing = nil
	if bad {
		w.step(FileWritten{Err: "the disk is full"})
		return
	}
	changed := w.file != w.is[t]
	w.file = w.is[t]
	w.step(FileWritten{Changed: changed})
}

// load lets OpenSM load the file on its own, as it does without the plugin.
func (w *world) load() {
	if w.plugin {
		w.t.Skip("the plugin asks")
	}
	w.switches = w.file
	w.check()
}

// route completes the loading of tables into the switches.
func (w *world) route() {
	if !w.sweeping {
		w.t.Skip("there is no sweep")
	}
	if w.flying >= 0 {
		w.switches, w.flying = w.flying, -1
	}
	w.step(Routed{})
}

// link connects or disconnects the plugin. Tables on their way to the switches arrive.
func (w *world) link(up bool) {
	if w.flying >= 0 {
		w.switches, w.flying = w.flying, -1
	}
	w.plugin, w.sweeping, w.served, w.promised = up, false, false, false
	for n, q := range w.asked {
		w.asked[n] = question{-2 - q.fabric, q.deadline} // the plugin can no longer receive tables
	}
	w.since = w.now
	if up {
		w.step(Connected{})
	} else {
		w.step(Disconnected{})
	}
}

// sweep starts or ends a sweep of the OpenSM with the plugin.
func (w *world) sweep() {
	switch {
	case !w.plugin:
		w.t.Skip("no plugin tells")
	case w.sweeping:
		for n := range w.asked {
			w.asked[n] = question{w.asked[n].fabric, w.now}
			w.step(Withdrawn{n})
		}
		w.route()
		w.sweeping = false
		w.step(SweepEnded{})
	default:
		w.sweeping, w.served, w.promised = true, false, false
		w.step(SweepStarted{})
	}
}

// ask asks for the tables of a fabric.
func (w *world) ask(fabric int, patience time.Duration) {
	if !w.sweeping || w.served {
		w.t.Skip("nothing to ask for")
	}
	w.number++
	w.asked[w.number] = question{fabric, w.now.Add(patience)}
	w.step(Asked{w.number, string(rune('A' + fabric)), w.now.Add(patience)})
}

// pass advances the time, with ticks whenever the core asks for them.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for range 100 {
		wake := w.c.Wake()
		if wake.IsZero() || wake.After(end) {
			w.now = end
			w.step(Tick{})
			return
		}
		w.now = wake
		w.step(Tick{})
	}
	w.t.Fatal("it ticks without end")
}

// TestDelivery drives the core through random events with a disk and an OpenSM that
// behave arbitrarily. The tables in the switches are always among those that the switches
// may hold. A plan that holds on all of these never loses its lanes. The plugin gets the
// tables of the requested fabric in time, or none. Only actions that need the disk wait
// for it. When all faults have ended, the file and the switches hold the ordered tables.
func TestDelivery(t *testing.T) {
	histories.Check(t, 3000, func(t *rapid.T) {
		w := newWorld(t)
		number := func(t *rapid.T, name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
		t.Repeat(map[string]func(*rapid.T){
			"order": func(t *rapid.T) {
				w.order(number(t, "fabric", 4), number(t, "contents", contents+1), number(t, "rewrite", 4) == 0)
			},
			"publish": func(_ *rapid.T) { w.publish() },
			"decline": func(t *rapid.T) {
				f := number(t, "fabric", 4)
				if f == w.fabric {
					t.Skip("it has tables")
				}
				w.step(Decline{string(rune('A' + f)), "it is not believed"})
			},
			"written": func(t *rapid.T) { w.written(number(t, "luck", 3) == 0) },
			"load":    func(_ *rapid.T) { w.load() },
			"signal": func(t *rapid.T) {
				if !w.calm() || w.fabric < 0 {
					t.Skip("not now")
				}
				w.loads, w.since = true, w.now
				w.step(Load{})
			},
			"settle": func(t *rapid.T) {
				if !w.calm() || w.fabric < 0 {
					t.Skip("not now")
				}
				w.settles, w.since = true, w.now
				w.step(Settle{})
			},
			"read": func(_ *rapid.T) {
				switch {
				case w.reading >= 0:
					match := w.reading == w.want
					tables := w.tables(w.reading)
					w.reading = -1
					w.step(Read{tables, match})
				case w.calm() && w.fabric >= 0:
					w.step(Reading{})
					w.reading = w.switches
				}
			},
			"give up reading": func(_ *rapid.T) { w.reading = -1 },
			"change":          func(_ *rapid.T) { w.step(Changing{}) },
			"forget": func(_ *rapid.T) {
				w.reading, w.plan = -1, 0
				w.step(Forget{})
			},
			"link":  func(_ *rapid.T) { w.link(!w.plugin) },
			"sweep": func(_ *rapid.T) { w.sweep() },
			"route": func(_ *rapid.T) { w.route() },
			"miss": func(t *rapid.T) {
				if !w.sweeping || !w.served || w.flying < 0 {
					t.Skip("it was given nothing")
				}
				w.served, w.flying, w.promised = false, w.file, false
				w.step(Missed{})
			},
			"ask": func(t *rapid.T) {
				w.ask(number(t, "fabric", 4), time.Duration(number(t, "patience", 3))*50*time.Millisecond)
			},
			"pass": func(t *rapid.T) {
				w.pass(time.Duration(rapid.SampledFrom([]int{0, 30, 50, 1000, 5000}).Draw(t, "milliseconds")) * time.Millisecond)
			},
		})
		w.comeToRest(rapid.Bool().Draw(t, "by the plugin"))
	})
}

// comeToRest ends all faults and delivers tables.
func (w *world) comeToRest(plugin bool) {
	if w.plugin != plugin {
		w.link(plugin)
	}
	write := func() {
		for w.pass(time.Second); w.writing != nil; {
			w.written(false)
		}
	}
	write()
	w.reading, w.plan = -1, 0
	w.order(1, 5, false)
	write()
	if w.waiting || w.file != 5 {
		w.t.Fatalf("the file holds %d, the order waits: %v", w.file, w.waiting)
	}
	w.loads, w.since = true, w.now
	w.step(Load{})
	switch {
	case !plugin:
		w.load()
	case w.sweeping:
		w.sweep()
		fallthrough
	default:
		w.sweep()
		w.ask(1, time.Second)
		w.sweep()
	}
	if w.loads || w.switches != 5 {
		w.t.Fatalf("the switches hold %d", w.switches)
	}
	w.settles, w.since = true, w.now
	w.step(Settle{})
	w.step(Reading{})
	w.step(Read{w.tables(w.switches), true})
	if w.settles || !w.c.Match() || len(w.c.Possible()) != 1 {
		w.t.Fatalf("at rest: match %v, may hold %v", w.c.Match(), w.possible())
	}
	if wake := w.c.Wake(); !wake.IsZero() {
		w.t.Fatalf("at rest a tick is wanted for %s", wake)
	}
}

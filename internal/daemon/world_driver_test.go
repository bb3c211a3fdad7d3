package daemon

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/topology"
)

// worldSettings are what a history depends on besides its events.
type worldSettings struct {
	fabric *topology.Fabric
	seed   uint64
	plugin bool // OpenSM loads forsd's plugin
	traps  bool // without it, forsd subscribes to traps
	counts bool // forsd reads the counters of cables, and isolates
	pair   bool // two managers, with a forsd each
}

// settingsOf draws those of a history.
func settingsOf(t testing.TB, fabric string, seed uint64) worldSettings {
	r := rand.New(rand.NewPCG(seed, 11))
	s := worldSettings{fabric: healthyWorld(t, fabric, seed), seed: seed, plugin: r.IntN(2) == 0, traps: r.IntN(2) == 0, counts: r.IntN(3) == 0, pair: r.IntN(3) == 0}
	s.plugin = s.plugin || s.pair // it alone tells two forsd which manager is the master
	return s
}

// String names what is set.
func (s worldSettings) String() string {
	var out []string
	for name, set := range map[string]bool{"plugin": s.plugin, "traps": s.traps, "counts": s.counts, "pair": s.pair} {
		if set {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// with returns the settings that a word each names.
func (s worldSettings) with(words string) worldSettings {
	s.plugin, s.traps, s.counts, s.pair = strings.Contains(words, "plugin"), strings.Contains(words, "traps"), strings.Contains(words, "counts"), strings.Contains(words, "pair")
	return s
}

// world is a fabric, and one or two hosts with a manager and a forsd, in virtual time. One
// goroutine drives it. The daemon's own goroutines run while it waits for them, one piece of
// work at a time.
type world struct {
	t   *testing.T
	set worldSettings
	rng *rand.Rand
	dir string

	plant *plant
	sides []*side
	*side // where the present step happens

	queue   []timed
	order   int
	pids    int
	lossy   int       // of 1000 datagrams of OpenSM and forsd
	apart   bool      // the two forsd do not reach each other
	prefers int       // the side whose manager has the higher priority
	work    int       // actions that forsd has carried out
	changes int       // of the fabric that are to come
	changed time.Time // the fabric, or what a manager has found of it, last
	booted  time.Duration

	tablesChanged bool
	lines         []string
	logMu         sync.Mutex
	log           []string // of forsd since the last note
	failure       string
	judge         judgement
	way           []topology.PortRef // scratch space
	orders        []*order
	ordered       []exclusions.Part // drained
	leases        []lease
	event         *happening
	played        []happening // with the parts that they were about
	cover         meetings
	lastIsolated  []int // isolated by forsd when it last ran
	phases        int   // of the healthy fabric's plan
	follow        bool  // tables follow from the plan: not all that they hold on the way is planned
	spoilt        bool  // the switches hold what OpenSM made by itself, or lost entries
}

// side is a host with a manager and a forsd.
type side struct {
	number    int
	home      string // its directory
	conf      string
	tableFile string
	manager   *subnetManager
	forsd     *process // nil while it does not run
	disk      *disk    // of the state directory
	tables    *disk    // of the table file
	wire      *probePort
	starts    int
	pending   bool // a forsd was killed that had not stored all
	crashed   bool // forsd is dead, and does not know it yet
	crashAt   int  // the sync at which forsd is killed; 0 is none
	syncs     int
	failAt    map[int]bool
	retold    int       // the variant of the configuration in force
	stalled   time.Time // until when forsd gets no processor
}

// timed is something that happens later.
type timed struct {
	at    time.Time
	order int
	side  *side
	do    func()
}

// order is a request of an operator.
type order struct {
	what   string
	done   bool
	told   bool
	asked  *process
	part   *exclusions.Part // that it drains or gives back
	lost   bool             // forsd was killed before it answered
	err    error
	then   func() // when it is carried out
	undone func() // when it failed
}

func newWorld(t *testing.T, set worldSettings, dir string) *world {
	w := &world{t: t, set: set, rng: rand.New(rand.NewPCG(set.seed, 0)), dir: dir, plant: newPlant(set.fabric), cover: meetings{}}
	w.judge.init(w.plant)
	hosts := w.hosts()
	leaf, _ := w.plant.uplink(hosts[0])
	w.follow = w.drainable() == nil || len(w.plant.lids[hosts[0]]) <= len(w.trunks(func(c *cable) bool { return int(c.a.Node) == leaf || int(c.b.Node) == leaf }))
	at := []int{hosts[0]}
	if set.pair {
		at = append(at, hosts[len(hosts)-1])
	}
	for n, host := range at {
		home := dir
		if n > 0 {
			home = filepath.Join(dir, "other")
		}
		s := &side{number: n, home: home, conf: filepath.Join(home, "opensm.conf"), tableFile: filepath.Join(home, "real", "tables", "lfts.dump")}
		s.manager = &subnetManager{w: w, side: s, host: host}
		ok(t, os.MkdirAll(filepath.Join(home, "real", "state.away"), 0o755))
		size := fmt.Sprintf("size=%d", max(4<<20, 200*len(hosts)*len(hosts)))
		s.disk, s.tables = diskOf(t, filepath.Join(home, "real", "state"), size), diskOf(t, filepath.Join(home, "real", "tables"), size)
		w.sides = append(w.sides, s)
	}
	w.side = w.sides[0]
	return w
}

// each does something at each side.
func (w *world) each(do func()) {
	was := w.side
	for _, s := range w.sides {
		w.side = s
		do()
	}
	w.side = was
}

// somewhere moves to a side.
func (w *world) somewhere(r *rand.Rand) {
	if w.side = w.sides[0]; len(w.sides) > 1 {
		w.side = w.sides[r.IntN(len(w.sides))]
	}
}

// hosts lists the hosts.
func (w *world) hosts() (out []int) {
	for i := range w.plant.nodes {
		if !w.plant.nodes[i].isSwitch {
			out = append(out, i)
		}
	}
	return out
}

// note adds a line to the transcript.
func (w *world) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = temporary.ReplaceAllString(strings.ReplaceAll(text, w.dir, "DIR"), "$1")
	w.lines = append(w.lines, fmt.Sprintf("%10.6f %s", time.Since(epoch0).Seconds(), text))
}

// temporary is the name of a file before it is renamed.
var temporary = regexp.MustCompile(`(/\.[a-z.]+)[0-9]{5,}`)

// epoch0 is when the time of a bubble begins.
var epoch0 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// fail records a violation.
func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.note("VIOLATION: %s", w.failure)
	}
}

// after calls f after some time.
func (w *world) after(d time.Duration, f func()) {
	w.order++
	w.queue = append(w.queue, timed{time.Now().Add(d), w.order, w.side, f})
}

// whenRuns calls f after some time, when the forsd of a side has a processor.
func (w *world) whenRuns(s *side, d time.Duration, f func()) {
	w.after(d, func() {
		if pause := time.Until(s.stalled); pause > 0 {
			w.whenRuns(s, pause, f)
		} else {
			f()
		}
	})
}

// between draws a time in milliseconds.
func (w *world) between(from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(w.rng.IntN(max(1, (to-from)*1000)))*time.Microsecond
}

// links tells which cables are live where a manager can see them.
func (w *world) links(host int) []bool {
	near := w.plant.near(host)
	out := make([]bool, len(w.plant.cables))
	for c := range out {
		out[c] = w.plant.live(c) && near[w.plant.cables[c].a.Node]
	}
	return out
}

// flush moves the daemon's log into the transcript. Lines of the same moment are sorted: their
// goroutines may run in any order.
func (w *world) flush() {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	slices.Sort(w.log)
	for _, line := range w.log {
		w.note("%s", line)
	}
	w.log = nil
}

// settle lets the daemon's goroutines run, and handles what they have for the loops.
func (w *world) settle() {
	for range 100_000 {
		synctest.Wait()
		for _, s := range w.sides {
			if w.side = s; w.crashed {
				w.kill()
				w.again(w.rng)
				return
			}
		}
		if w.look(); w.failure != "" || !w.turnAny() {
			return
		}
	}
	w.fail("forsd's loop does not come to rest")
}

// turnAny has the loop of one side handle an event, if there is one.
func (w *world) turnAny() bool {
	first := 0
	if len(w.sides) > 1 {
		first = w.rng.IntN(len(w.sides))
	}
	for n := range w.sides {
		w.side = w.sides[(first+n)%len(w.sides)]
		if w.forsd == nil {
			continue
		}
		for ; w.manager.hup > 0; w.manager.hup-- {
			w.manager.step(w.between(0, 3), w.manager.sweep)
		}
		if time.Now().Before(w.stalled) {
			continue
		}
		w.forsd.converse()
		if w.forsd.turnOnce() {
			return true
		}
	}
	return false
}

// pass lets time pass until an instant, or until done reports true.
func (w *world) pass(until time.Time, done func() bool) {
	for w.failure == "" {
		w.settle()
		if w.failure != "" || done != nil && done() {
			return
		}
		now := time.Now()
		next := until
		earlier := func(t time.Time) {
			if t.Before(next) {
				next = t
			}
		}
		due := -1
		for i := range w.queue {
			if due < 0 || w.queue[i].at.Before(w.queue[due].at) || w.queue[i].at.Equal(w.queue[due].at) && w.queue[i].order < w.queue[due].order {
				due = i
			}
		}
		if due >= 0 && !w.queue[due].at.After(now) {
			do := w.queue[due].do
			w.side = w.queue[due].side
			w.queue = slices.Delete(w.queue, due, due+1)
			do()
			continue
		}
		if !now.Before(until) {
			return
		}
		if due >= 0 {
			earlier(w.queue[due].at)
		}
		for _, s := range w.sides {
			p := s.forsd
			if p == nil {
				continue
			}
			if now.Before(s.stalled) {
				earlier(s.stalled)
				continue
			}
			if wake := p.d.wake(); !wake.IsZero() {
				earlier(wake)
			}
			earlier(p.beat)
			quantum := 100 * time.Millisecond
			if p.busy > 0 || p.d.core.Busy() {
				quantum = 500*time.Microsecond + time.Duration(w.rng.IntN(1500))*time.Microsecond
			}
			earlier(now.Add(quantum))
		}
		d := next.Sub(now)
		if d <= 0 {
			d = 100 * time.Microsecond
		}
		time.Sleep(d + time.Duration(1+w.rng.IntN(999))) // timers of one instant fire in any order
	}
}

// subscribed is a trap that the subnet administrator passes on to forsd.
func (w *world) subscribed(node int) {
	if !w.set.traps || w.set.plugin || w.forsd == nil || w.rng.IntN(10) == 0 {
		return
	}
	p := w.forsd
	w.after(w.between(0, 2)+max(0, time.Until(w.stalled)), func() {
		if p == w.forsd {
			p.d.observe(p.ctx, linkstate.Trap{LID: ib.LID(w.plant.lids[node][0]), At: time.Now()})
			p.d.giveTurns(p.ctx)
		}
	})
}

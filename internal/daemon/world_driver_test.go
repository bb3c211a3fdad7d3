package daemon

import (
	"context"
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

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// worldSettings are what a history depends on besides its events.
type worldSettings struct {
	fabric *topology.Fabric
	seed   uint64
	plugin bool // OpenSM loads forsd's plugin
	traps  bool // without it, forsd subscribes to traps
}

// world is a fabric, its manager and forsd, in virtual time. One goroutine drives it. The
// daemon's own goroutines run while it waits for them, one piece of work at a time.
type world struct {
	t    *testing.T
	set  worldSettings
	rng  *rand.Rand
	dir  string
	conf string

	plant     *plant
	manager   *subnetManager
	forsd     *process // nil while it does not run
	tableFile string
	disk      *disk

	queue   []timed
	order   int
	pids    int
	starts  int
	lossy   int       // of 1000 datagrams of OpenSM and forsd
	changes int       // of the fabric that are to come
	changed time.Time // the fabric, last
	pending bool      // a forsd was killed that had not stored all
	crashed bool      // forsd is dead, and does not know it yet
	crashAt int       // the sync at which forsd is killed; 0 is none
	syncs   int
	failAt  map[int]bool

	tablesChanged bool
	lines         []string
	logMu         sync.Mutex
	log           []string // of forsd since the last note
	failure       string
	judge         judgement
	orders        []*order
	ordered       []exclusions.Part // drained
	wire          *probePort
	phases        int  // of the healthy fabric's plan
	spoilt        bool // the switches hold what OpenSM made by itself, or lost entries
}

// timed is something that happens later.
type timed struct {
	at    time.Time
	order int
	do    func()
}

// order is a request of an operator.
type order struct {
	what   string
	done   bool
	told   bool
	part   *exclusions.Part // that it drains or gives back
	lost   bool             // forsd was killed before it answered
	err    error
	then   func() // when it is carried out
	undone func() // when it failed
}

// process is a forsd.
type process struct {
	w      *world
	d      *Daemon
	ctx    context.Context
	cancel context.CancelFunc
	reader *umad.Reader
	busy   int // pieces of work under way
	dead   bool
	blind  bool // it has published no plan
	read   bool // its plans have been read
	ticks  int  // at one instant
	tick   time.Time
	beat   time.Time // next watchdog
	link   string    // its directory
}

func newWorld(t *testing.T, set worldSettings, dir string) *world {
	w := &world{t: t, set: set, rng: rand.New(rand.NewPCG(set.seed, 0)), dir: dir, plant: newPlant(set.fabric)}
	w.judge.init()
	ok(t, os.MkdirAll(filepath.Join(dir, "real"), 0o755))
	w.tableFile = filepath.Join(dir, "real", "lfts.dump")
	w.conf = filepath.Join(dir, "opensm.conf")
	w.manager = &subnetManager{w: w, host: w.hosts()[0]}
	return w
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
	w.queue = append(w.queue, timed{time.Now().Add(d), w.order, f})
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

// sink is a zap core that keeps lines for the transcript.
type sink struct {
	zapcore.LevelEnabler
	w *world
	p *process
}

func (s sink) With([]zapcore.Field) zapcore.Core { return s }
func (s sink) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if s.Enabled(e.Level) {
		return c.AddCore(e, s)
	}
	return c
}
func (s sink) Sync() error { return nil }
func (s sink) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if s.p.dead {
		return nil
	}
	enc := zapcore.NewMapObjectEncoder()
	var text strings.Builder
	for _, f := range fields {
		if f.Key == "took" || f.Key == "pid" {
			continue
		}
		f.AddTo(enc)
		fmt.Fprintf(&text, " %s=%v", f.Key, enc.Fields[f.Key])
	}
	s.w.logMu.Lock()
	defer s.w.logMu.Unlock()
	if strings.Contains(text.String(), "share no lane") && time.Since(s.w.changed) < time.Second {
		s.p.blind = true // during a change, too few lanes are up in the fabric and in the tables: there is no plan
	}
	s.w.log = append(s.w.log, "  forsd: "+e.Message+strings.ReplaceAll(text.String(), s.p.link, "DIR"))
	return nil
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

// start starts forsd. If the manager already runs, its files are there.
func (w *world) start() {
	w.starts++
	p := &process{w: w, blind: true, link: filepath.Join(w.dir, fmt.Sprint("run", w.starts))}
	ok(w.t, os.Symlink(filepath.Join(w.dir, "real"), p.link))
	cfg := config.Default()
	cfg.StateDir = filepath.Join(p.link, "state")
	cfg.OpenSM.LFTsFile, cfg.OpenSM.RootFile = filepath.Join(p.link, "lfts.dump"), filepath.Join(p.link, "root")
	cfg.OpenSM.DumpDir, cfg.OpenSM.CacheDir = p.link, p.link
	cfg.OpenSM.Conf = w.conf
	cfg.OpenSM.DumpCommand = []string{"/bin/false"}
	cfg.API.Socket, cfg.OpenSM.Plugin.Socket = filepath.Join(p.link, "s"), filepath.Join(p.link, "p")
	cfg.Cables.Mode = cablehealth.Off
	cfg.Damping.MaxHoldDown = 40 * time.Second
	cfg.KeepEpochs = 5
	if !w.set.traps && !w.set.plugin {
		cfg.OpenSM.Traps = config.TrapsOff
	}
	level := zapcore.InfoLevel
	if os.Getenv("FORS_WORLD_DEBUG") != "" {
		level = zapcore.DebugLevel
	}
	log := zap.New(sink{level, w, p})
	w.settings(p.link)
	w.note("forsd starts")
	w.forsd = p
	d, err := New(cfg, "world", log, func(string) {})
	if err != nil {
		w.fail("forsd does not start: %v", err)
		w.forsd = nil
		return
	}
	p.d = d
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if w.pending { // decisions that were not stored are lost, as forsd has warned
		w.pending, w.ordered = false, nil
		for _, x := range d.state.Now().Drains {
			w.ordered = append(w.ordered, x.Part)
		}
	}
	for _, o := range w.orders { // what was carried out before it was killed
		if part := o.part; o.lost && part != nil {
			o.part = nil
			w.ordered = slices.DeleteFunc(w.ordered, func(x exclusions.Part) bool { return x == *part })
			if slices.ContainsFunc(d.state.Now().Drains, func(x exclusions.Drain) bool { return x.Part == *part }) {
				w.ordered = append(w.ordered, *part)
			}
		}
	}
	d.manager.Finder, d.manager.Sweep = w.manager, w.manager.hangUp
	d.reader().Open = func(*topology.Fabric) (*umad.Reader, error) {
		w.wire = &probePort{plant: w.plant, host: w.manager.host, seed: w.set.seed + uint64(w.starts)<<32, asked: map[[3]int]uint64{}, loses: w.lossy}
		p.reader = umad.On(w.wire, umad.LocalPort{Device: "world0", Number: 1, GUID: w.plant.whole.Nodes[w.manager.host].Ports[1].GUID, State: topology.Active, InfiniBand: true}, umad.Options{})
		return p.reader, nil
	}
	d.work.begin = func(f func()) {
		p.busy++
		w.after(w.between(0, 3), func() {
			if !p.dead {
				go func() {
					defer func() { p.busy-- }() // no other goroutine of the world runs now
					f()
				}()
			}
		})
	}
	p.beat = time.Now().Add(watchdogEvery)
	d.stepStandby(p.ctx, standby.Start{})
	d.manager.Look(p.ctx)
	go func() { _ = d.manager.Watch(p.ctx) }()
	w.manager.showDump()
	w.manager.connect()
	for c := range w.plant.cables { // what was being drained is out of the tables before the plan: the tables are not known
		for _, part := range w.ordered {
			if x := &w.plant.cables[c]; w.cablePart(c) == part || w.plant.guid(int(x.a.Node)) == part.GUID || w.plant.guid(int(x.b.Node)) == part.GUID {
				w.judge.died[c] = true
			}
		}
	}
}

// settings writes OpenSM's settings, by the paths that forsd has now.
func (w *world) settings(link string) {
	text := fmt.Sprintf("routing_engine file,updn\nlfts_file %[1]s/lfts.dump\nroot_guid_file %[1]s/root\ndump_files_dir %[1]s\nlmc %[2]d\nhonor_guid2lid_file TRUE\n", link, w.set.fabric.Nodes[w.manager.host].Ports[1].LMC)
	if w.set.plugin {
		text = strings.Replace(text, "file,", "fors,file,", 1) + "event_plugin_name forsosm\nevent_plugin_options socket=" + link + "/p deadline=50\n"
	}
	ok(w.t, os.WriteFile(w.conf, []byte(text), 0o644))
	ok(w.t, os.Chtimes(w.conf, epoch0, epoch0.Add(-time.Hour)))
}

// synced is called in place of store.SyncPath, by whatever goroutine.
func (w *world) synced(path string, sync func(string) error) error {
	p := w.forsd
	if p == nil || !strings.HasPrefix(path, p.link+"/state") && !strings.HasSuffix(path, "/state") {
		return sync(path)
	}
	w.syncs++
	if w.failAt[w.syncs] {
		return fmt.Errorf("sync %s: input/output error", path)
	}
	if w.crashAt != 0 && w.syncs >= w.crashAt {
		w.crashed = true
		_ = os.Remove(p.link) // what it writes from here on is lost
	}
	return sync(path)
}

// kill ends forsd as SIGKILL does.
func (w *world) kill() {
	p := w.forsd
	p.dead = true
	w.pending = w.pending || p.d.store.Disk.PendingErr() != nil
	if !w.crashed {
		w.flush()
	}
	w.log = nil
	w.note("forsd is killed")
	w.forsd = nil
	w.crashAt, w.crashed = 0, false
	w.manager.linked = false
	_ = os.Remove(p.link) // what still runs of it finds nothing
	p.cancel()
	select {
	case <-p.d.inbox.stopped:
	default:
		close(p.d.inbox.stopped)
	}
	if p.reader != nil {
		_ = p.reader.Close()
	}
	synctest.Wait()
	for _, o := range w.orders {
		if !o.told { // nobody got the answer
			o.told, o.done, o.lost = true, true, true
		}
	}
	_ = p.d.store.Close()
	synctest.Wait()
}

// settle lets the daemon's goroutines run, and handles what they have for the loop.
func (w *world) settle() {
	for range 100_000 {
		synctest.Wait()
		p := w.forsd
		if w.crashed {
			w.kill()
			w.again(w.rng)
			return
		}
		w.look()
		if w.failure != "" || p == nil {
			return
		}
		for ; w.manager.hup > 0; w.manager.hup-- {
			w.manager.step(w.between(0, 3), w.manager.sweep)
		}
		if !p.turnOnce() {
			return
		}
	}
	w.fail("forsd's loop does not come to rest")
}

// turnOnce has the loop handle one event, if there is one.
func (p *process) turnOnce() bool {
	d, ctx, handled := p.d, p.ctx, false
	for _, k := range p.w.rng.Perm(9) {
		if handled = p.take(k); handled {
			break
		}
	}
	if !handled {
		return false
	}
	d.giveTurns(ctx)
	d.showPeer()
	return true
}

// take handles an event of a kind.
func (p *process) take(kind int) bool {
	d, ctx := p.d, p.ctx
	switch kind {
	case 0:
		select {
		case s := <-d.inbox.snapshots:
			d.dumpSeen(ctx, s)
			return true
		default:
		}
	case 1:
		select {
		case e := <-d.inbox.plugin:
			d.pluginSays(ctx, e)
			return true
		default:
		}
	case 2:
		select {
		case q := <-d.inbox.questions:
			d.tablesWanted(ctx, q)
			return true
		default:
		}
	case 3:
		select {
		case e := <-d.probe.Events:
			d.observe(ctx, e)
			return true
		default:
		}
	case 4:
		select {
		case a := <-d.probe.Answers:
			d.switchesSaid(ctx, a)
			return true
		default:
		}
	case 5:
		if p.w.rng.IntN(3) == 0 {
			return false // it comes later
		}
		select {
		case e := <-d.inbox.answers:
			d.step(ctx, e)
			return true
		default:
		}
	case 6:
		select {
		case call := <-d.inbox.calls:
			call(ctx, d.loop)
			return true
		default:
		}
	case 7:
		wake, now := d.wake(), time.Now()
		if wake.IsZero() || wake.After(now) {
			return false
		}
		if !p.tick.Equal(now) {
			p.ticks, p.tick = 0, now
		}
		if p.ticks++; p.ticks > 200 {
			p.w.fail("the loop's timer is due again and again: %v", wake)
			return false
		}
		d.observe(ctx, linkstate.Tick{})
		d.step(ctx, controller.Tick{})
		return true
	case 8:
		if now := time.Now(); !now.Before(p.beat) {
			p.beat = now.Add(watchdogEvery)
			if !d.core.Busy() {
				d.store.LookAtDisk()
			}
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
		if p := w.forsd; p != nil {
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
		if d := next.Sub(now); d > 0 {
			time.Sleep(d)
		} else {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// subscribed is a trap that the subnet administrator passes on to forsd.
func (w *world) subscribed(node int) {
	if !w.set.traps || w.set.plugin || w.forsd == nil || w.rng.IntN(10) == 0 {
		return
	}
	p := w.forsd
	w.after(w.between(0, 2), func() {
		if p == w.forsd {
			p.d.observe(p.ctx, linkstate.Trap{LID: ib.LID(w.plant.lids[node][0]), At: time.Now()})
			p.d.giveTurns(p.ctx)
		}
	})
}

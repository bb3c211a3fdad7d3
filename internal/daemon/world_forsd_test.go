package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// madeAhead has the plans that any forsd has made ahead: they are the same without it.
var madeAhead = &planner.Memory{}

// process is a forsd.
type process struct {
	w      *world
	d      *Daemon
	ctx    context.Context
	cancel context.CancelFunc
	reader *umad.Reader
	busy   int // pieces of work under way
	dead   bool
	blind  bool   // it has published no plan
	first  uint64 // the plan that it began with
	ticks  int    // at one instant
	tick   time.Time
	beat   time.Time // next watchdog
	link   string    // its directory
	asks   *exchange // the last question to the other forsd
	since  time.Time // it is there
	safe   int       // parts that are safe to pull
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

// configured is the configuration of a forsd at this side, in one of some variants.
func (w *world) configured(link string, variant int) *config.Config {
	cfg := config.Default()
	cfg.StateDir = filepath.Join(link, "state")
	cfg.OpenSM.LFTsFile, cfg.OpenSM.RootFile = filepath.Join(link, "tables", "lfts.dump"), filepath.Join(link, "root")
	cfg.OpenSM.DumpDir, cfg.OpenSM.CacheDir = link, link
	cfg.OpenSM.Conf = w.conf
	cfg.OpenSM.DumpCommand = []string{"/bin/false"}
	cfg.API.Socket, cfg.OpenSM.Plugin.Socket = filepath.Join(link, "s"), filepath.Join(link, "p")
	cfg.Damping.MaxHoldDown = 40 * time.Second
	cfg.KeepEpochs = 5
	if !w.set.traps && !w.set.plugin {
		cfg.OpenSM.Traps = config.TrapsOff
	}
	if cfg.Cables.Mode = cablehealth.Off; w.set.counts {
		c := &cfg.Cables
		c.Mode, c.Every = cablehealth.Isolate, 10*time.Second
		c.Short, c.Long, c.Test, c.Probation = time.Minute, 2*time.Minute, time.Minute, time.Minute
	}
	if w.set.pair {
		cfg.Peer.Address = "http://other:8080"
	}
	switch variant {
	case 1:
		cfg.Damping.HoldDown, cfg.Damping.Flaps, cfg.Retry.First = 2*time.Second, 2, 200*time.Millisecond
	case 2:
		cfg.Planning.Exclude = regexp.MustCompile("^" + w.plant.whole.Nodes[w.hosts()[1]].Name)
	case 3:
		cfg.Safety.MaxLoss, cfg.OpenSM.SweepTimeout, cfg.Jobs.OwnLanes = 0.2, 5*time.Second, true
	}
	return cfg
}

// start starts forsd. If the manager already runs, its files are there.
func (w *world) start() {
	w.starts++
	w.stalled = time.Time{}
	here := w.side
	p := &process{w: w, blind: true, link: filepath.Join(w.home, fmt.Sprint("run", w.starts)), since: time.Now()}
	ok(w.t, os.Symlink(filepath.Join(w.home, "real"), p.link))
	level := zapcore.InfoLevel
	if os.Getenv("FORS_WORLD_DEBUG") != "" {
		level = zapcore.DebugLevel
	}
	log := zap.New(sink{level, w, p})
	w.settings(p.link)
	w.note("forsd starts%s", w.where())
	clear(w.judge.forgone)
	w.forsd = p
	d, err := New(w.configured(p.link, w.retold), "world", log, func(string) {})
	if err != nil {
		w.fail("forsd does not start: %v", err)
		w.forsd = nil
		return
	}
	p.d, p.first = d, d.state.Now().EpochNumber()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	d.Configuration(config.File{Path: "forsd.yaml", Load: func() (*config.Config, error) { return w.read(here, p) }, Level: func(config.LogLevel) {}})
	d.actions.plans.Planning.Memory = madeAhead
	w.remember(d)
	d.manager.Finder, d.manager.Sweep = w.manager, w.manager.hangUp
	d.reader().Open = func(*topology.Fabric) (*umad.Reader, error) {
		here.wire = &probePort{plant: w.plant, host: here.manager.host, seed: w.set.seed + uint64(here.starts)<<32, asked: map[[3]int]uint64{}, loses: w.lossy}
		p.reader = umad.On(here.wire, umad.LocalPort{Device: "world0", Number: 1, GUID: w.plant.whole.Nodes[here.manager.host].Ports[1].GUID, State: topology.Active, InfiniBand: true}, umad.Options{})
		return p.reader, nil
	}
	d.work.begin = func(f func()) {
		p.busy++
		w.whenRuns(here, w.between(0, 3), func() {
			if !p.dead {
				go func() {
					defer func() { p.busy-- }() // no other goroutine of the world runs now
					f()
				}()
			}
		})
	}
	p.beat = time.Now().Add(watchdogEvery)
	if w.set.pair {
		d.standby = standby.New(standby.Settings{Peer: d.cfg.Peer.Address, TakeoverWait: d.cfg.Peer.Timeout, Salt: w.rng.Uint32()})
	}
	d.stepStandby(p.ctx, standby.Start{})
	d.manager.Look(p.ctx)
	go func() { _ = d.manager.Watch(p.ctx) }()
	if w.set.counts {
		w.count(p)
	}
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

// where names the side, if there are two.
func (w *world) where() string {
	if len(w.sides) == 1 {
		return ""
	}
	return fmt.Sprint(" at ", w.number)
}

// remember takes over the decisions that a forsd has stored, where nobody was told otherwise.
func (w *world) remember(d *Daemon) {
	if w.set.pair {
		return // it may follow
	}
	if w.pending { // decisions that were not stored are lost, as forsd has warned
		w.pending, w.ordered, w.leases = false, nil, nil
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
}

// settings writes OpenSM's settings, by the paths that forsd has now.
func (w *world) settings(link string) {
	text := fmt.Sprintf("routing_engine file,updn\nlfts_file %[1]s/tables/lfts.dump\nroot_guid_file %[1]s/root\ndump_files_dir %[1]s\nlmc %[2]d\nhonor_guid2lid_file TRUE\n", link, w.set.fabric.Nodes[w.manager.host].Ports[1].LMC)
	if w.set.plugin {
		text = strings.Replace(text, "file,", "fors,file,", 1) + "event_plugin_name forsosm\nevent_plugin_options socket=" + link + "/p deadline=50\n"
	}
	ok(w.t, os.WriteFile(w.conf, []byte(text), 0o644))
	ok(w.t, os.Chtimes(w.conf, epoch0, epoch0.Add(-time.Hour)))
}

// synced is called in place of store.SyncPath, by whatever goroutine.
func (w *world) synced(path string, sync func(string) error) error {
	for _, s := range slices.Backward(w.sides) {
		p := s.forsd
		if p == nil || !strings.HasPrefix(path, p.link+"/state") && !(strings.HasPrefix(path, s.home+"/") && strings.HasSuffix(path, "/state")) {
			continue
		}
		s.syncs++
		if s.failAt[s.syncs] {
			return fmt.Errorf("sync %s: input/output error", path)
		}
		if s.crashAt != 0 && s.syncs >= s.crashAt {
			s.crashed = true
			_ = os.Remove(p.link) // what it writes from here on is lost
		}
		break
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
	w.note("forsd is killed%s", w.where())
	w.cutOff(p)
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
		if !o.told && o.asked == p { // nobody got the answer
			o.told, o.done, o.lost = true, true, true
			w.judge.contact.unsure = true
			if w.set.pair && p.d.standby.Role() != standby.Leads && o.undone != nil { // it refuses orders
				o.undone()
			}
		}
	}
	_ = p.d.store.Close()
	synctest.Wait()
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
			p.w.work++
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

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/topology"
)

// subnetManager is a model of OpenSM with the engines fors, file and updn.
type subnetManager struct {
	w      *world
	side   *side
	host   int  // that it runs on
	pid    int  // 0 if it does not run
	run    int  // its steps end with the run that they belong to
	master bool // of the fabric that it sees
	missed int  // questions to the master without an answer

	deaf     bool // it does not read the table file in the next sweep by that
	sweeping bool
	again    bool      // another sweep is due
	believed [][]uint8 // [node] what it believes that a switch holds; nil if it does not know
	swept    []bool    // [cable] live in its last sweep that succeeded; nil before that
	hup      int       // signals that it has not noticed

	found  *topology.Fabric // by the present sweep
	links  []bool           // [cable] live then
	nodes  []bool           // [node] seen then
	trains []int            // [cable] how often it had trained by then
	failed bool             // the present sweep
	pluginEnd
	dump  *opensm.Snapshot // its last
	shown bool             // forsd has found it
}

// Find finds the process; it is the daemon's opensm.Finder.
func (m *subnetManager) Find(context.Context) (opensm.Process, error) {
	if m.pid == 0 {
		return opensm.Process{}, fmt.Errorf("%w: the world has none", opensm.ErrNotRunning)
	}
	return opensm.Process{PID: m.pid, Ticks: uint64(m.pid), Comm: "opensm", Cmdline: []string{"opensm", "-F", filepath.Join(m.side.home, "opensm.conf")}, Started: epoch0, Env: map[string]string{"OSM_CACHE_DIR": m.cache()}}, nil
}

// cache is where OpenSM keeps guid2lid.
func (m *subnetManager) cache() string {
	if m.side.forsd == nil {
		return m.side.home
	}
	return m.side.forsd.link
}

// hangUp is how the daemon makes it sweep.
func (m *subnetManager) hangUp(ctx context.Context, f opensm.Finder) (opensm.Process, error) {
	p, err := f.Find(ctx)
	if err == nil {
		m.hup++
	}
	return p, err
}

// start starts the process, which sweeps.
func (m *subnetManager) start() {
	m.w.pids++
	m.pid, m.run = firstPID+m.w.pids, m.run+1
	m.believed, m.swept, m.sweeping, m.again = make([][]uint8, len(m.w.plant.nodes)), nil, false, false
	m.master, m.held, m.wish = !m.w.set.pair, nil, nil
	m.w.note("OpenSM starts%s", m.w.where())
	m.connect()
	if m.master {
		m.step(m.w.between(1, 300), m.sweep)
		m.step(10*time.Second, m.light)
	} else {
		m.step(m.w.between(1, 300), m.begin)
	}
}

// startAgain starts the process unless it runs.
func (m *subnetManager) startAgain() {
	if m.pid == 0 {
		m.start()
	}
}

// rule makes it the master, which knows nothing of what the switches hold.
func (m *subnetManager) rule() {
	m.w.note("OpenSM is the master at %d", m.side.number)
	m.master, m.run, m.sweeping, m.again, m.outdated = true, m.run+1, false, false, true
	m.believed, m.swept = make([][]uint8, len(m.w.plant.nodes)), nil
	m.tell(plugin.Mastership{At: time.Now(), State: plugin.Master})
	m.connect()
	m.step(m.w.between(1, 50), m.sweep)
	m.step(10*time.Second, m.light)
}

// stand makes it stand by, and ask the master from time to time.
func (m *subnetManager) stand() {
	m.w.note("OpenSM stands by at %d", m.side.number)
	m.master, m.run, m.sweeping, m.missed = false, m.run+1, false, 0
	m.tell(plugin.Mastership{At: time.Now(), State: plugin.Standby})
	m.connect()
	m.poll()
}

// poll asks the master whether it lives.
func (m *subnetManager) poll() {
	if r := m.rival(); r != nil && r.master {
		m.missed = 0
	} else if m.missed++; m.missed > 3 {
		m.rule()
		return
	}
	m.step(m.w.between(900, 1100), m.poll)
}

// yield gives the mastership to the other manager if that has the higher priority.
func (m *subnetManager) yield() bool {
	r := m.rival()
	if r == nil || r.side.number != m.w.prefers {
		return false
	}
	m.stand()
	was := m.w.side
	if m.w.side = r.side; !r.master {
		r.rule()
	} else { // it sends what the other one may have changed
		r.believed = make([][]uint8, len(m.w.plant.nodes))
		r.step(0, r.sweep)
	}
	m.w.side = was
	return true
}

// firstPID is above all process IDs of the kernel.
const firstPID = 1 << 23

// stop ends the process.
func (m *subnetManager) stop() {
	m.w.note("OpenSM ends%s", m.w.where())
	m.master = false
	m.pid, m.run, m.sweeping = 0, m.run+1, false
	m.disconnect()
}

// step calls f later, unless the process has ended by then.
func (m *subnetManager) step(d time.Duration, f func()) {
	run := m.run
	m.w.after(d, func() {
		if m.run == run {
			f()
		}
	})
}

// trap is a trap of a switch about its links.
func (m *subnetManager) trap(node int) {
	if m.pid == 0 || !m.master || !m.w.plant.near(m.host)[node] {
		return
	}
	m.step(m.w.between(0, 2), func() {
		m.tell(plugin.Trap{At: time.Now(), Number: plugin.TrapLinkState, GUID: m.w.plant.guid(node), LID: ib.LID(m.w.plant.lids[node][0])})
		m.w.subscribed(node)
		m.sweep()
	})
}

// light is a light sweep: it looks for changes.
func (m *subnetManager) light() {
	if m.yield() {
		return
	}
	m.step(10*time.Second, m.light)
	if !m.sweeping && !m.current() {
		m.sweep()
	}
}

// current reports whether its last sweep has seen the links as they are.
func (m *subnetManager) current() bool {
	links := m.w.links(m.host)
	for c, live := range links {
		if live && !m.w.plant.cables[c].active {
			return false
		}
	}
	return m.swept != nil && equalLinks(m.swept, links)
}

// sweep begins a heavy sweep, or has another one follow the present one.
func (m *subnetManager) sweep() {
	if m.w.set.pair && !m.master {
		return
	}
	if m.pid == 0 || m.sweeping {
		m.again = true
		return
	}
	m.sweeping, m.again, m.failed = true, false, false
	m.tell(plugin.SweepStart{At: time.Now()})
	m.step(m.w.between(5, 40), m.discovered)
}

// discovered ends the discovery, which a trap in it has repeated.
func (m *subnetManager) discovered() {
	if m.again && m.w.rng.IntN(5) > 0 {
		m.again = false
		m.step(m.w.between(5, 40), m.discovered)
		return
	}
	p := m.w.plant
	var err error
	if m.found, err = p.shown(m.host, false); err != nil {
		m.w.fail("the model's fabric: %v", err)
		return
	}
	m.links, m.nodes, m.trains = m.w.links(m.host), p.near(m.host), make([]int, len(p.cables))
	for c := range p.cables {
		m.trains[c] = p.cables[c].trains
	}
	if m.swept == nil || !equalLinks(m.swept, m.links) {
		m.w.changed = time.Now()
	}
	for i, there := range m.nodes { // what has gone is forgotten
		if !there {
			m.believed[i] = nil
		}
	}
	for c, live := range m.links { // switches with new links are sent all
		if x := &p.cables[c]; live && !x.active {
			m.believed[x.a.Node], m.believed[x.b.Node] = nil, nil
		}
	}
	if m.yield() {
		return
	}
	m.tell(plugin.Discovered{At: time.Now(), Sight: plugin.Sight{Fabric: m.found}})
	m.step(m.w.between(1, 15), m.route)
}

// readFile reads a table file.
func (m *subnetManager) readFile(name string) ([][]uint8, error) {
	if m.deaf {
		m.deaf = false
		return nil, errors.New("input/output error")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return m.w.plant.readTables(text)
}

// route gets the tables: by the plugin if it is loaded, or of the file. Without one OpenSM makes
// its own tables.
func (m *subnetManager) route() {
	if m.w.set.plugin {
		m.ask()
		return
	}
	tables, err := m.readFile(m.side.tableFile)
	if err == nil {
		m.upload(tables, opensm.FileEngine, false)
		return
	}
	m.w.note("OpenSM makes its own tables: %v", err)
	m.w.spoilt = true
	m.step(m.w.between(0, 200), m.logged)
	m.upload(m.w.plant.mend(m.links, nil, nil), "updn", false)
}

// logged has forsd read in OpenSM's log that OpenSM makes its own tables.
func (m *subnetManager) logged() {
	if p := m.side.forsd; p != nil && p.d != nil {
		go p.d.manager.Doubt()
	}
}

// routed ends the routing.
func (m *subnetManager) routed(engine string, own bool) {
	if !m.failed {
		m.tell(plugin.RoutingDone{At: time.Now(), Own: own, Engine: engine})
	}
	m.step(m.w.between(2, 20), func() { m.up(engine) })
}

// up brings the links up, and ends the sweep.
func (m *subnetManager) up(engine string) {
	p := m.w.plant
	m.sweeping = false
	if m.failed {
		m.again = true
	} else {
		for c, live := range m.links {
			if live && p.live(c) && m.trains[c] == p.cables[c].trains {
				p.cables[c].active = true
			}
		}
		m.swept = m.links
		for c, live := range m.links { // a light sweep finds links that have trained since
			m.swept[c] = live && (!p.live(c) || p.cables[c].active)
		}
		f := plugin.AfterSweep(m.found)
		now := time.Now()
		m.shown = false
		m.dump = &opensm.Snapshot{Fabric: f, SeenAt: now, CompleteAt: now, Swept: true}
		m.w.note("OpenSM has swept by %s", engine)
		m.tell(plugin.SubnetUp{At: now, Sight: plugin.Sight{Fabric: f}})
		m.w.judgeLoops()
		if m.w.rng.IntN(20) > 0 {
			m.step(m.w.between(0, 30), m.showDump)
		} else {
			m.step(m.w.between(100, 1500), m.showDump) // a slow disk
		}
	}
	if m.again {
		m.step(m.w.between(0, 5), m.sweep)
	}
}

// showDump has forsd's watcher find the last dump.
func (m *subnetManager) showDump() {
	if m.side.forsd == nil || m.dump == nil {
		return
	}
	m.shown = true
	s := *m.dump
	s.SeenAt, s.CompleteAt = time.Now(), time.Now()
	select {
	case <-m.side.forsd.d.inbox.snapshots:
	default:
	}
	m.side.forsd.d.inbox.snapshots <- s
}

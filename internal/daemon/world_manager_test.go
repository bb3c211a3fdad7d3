package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
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
	linked   bool // its plugin is connected to the forsd beside it
	sweeping bool
	again    bool      // another sweep is due
	believed [][]uint8 // [node] what it believes that a switch holds; nil if it does not know
	swept    []bool    // [cable] live in its last sweep that succeeded; nil before that
	hup      int       // signals that it has not noticed

	found    *topology.Fabric // by the present sweep
	links    []bool           // [cable] live then
	nodes    []bool           // [node] seen then
	trains   []int            // [cable] how often it had trained by then
	failed   bool             // the present sweep
	requests uint64
	dump     *opensm.Snapshot // its last
	shown    bool             // forsd has found it
}

// deadline is how long the plugin waits for tables.
const deadline = 50 * time.Millisecond

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
	m.master = !m.w.set.pair
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
	m.master, m.run, m.sweeping, m.again = true, m.run+1, false, false
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
	if was := m.w.side; !r.master {
		m.w.side = r.side
		r.rule()
		m.w.side = was
	}
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

// connect connects the plugin to forsd.
func (m *subnetManager) connect() {
	p := m.side.forsd
	if !m.w.set.plugin || m.linked || m.pid == 0 || p == nil {
		return
	}
	m.step(m.w.between(1, 1000), func() {
		if m.linked || m.side.forsd == nil {
			return
		}
		m.linked = true
		m.tell(plugin.Connected{At: time.Now(), Peer: plugin.Peer{PID: m.pid, Version: "OpenSM 3.3.23", Deadline: deadline}})
		state := plugin.Standby
		if m.master {
			state = plugin.Master
		}
		m.tell(plugin.Mastership{At: time.Now(), State: state})
		if m.master && m.swept != nil && m.dump != nil {
			m.tell(plugin.SubnetUp{At: time.Now(), Sight: plugin.Sight{Fabric: m.dump.Fabric}})
		}
	})
}

// disconnect ends the connection, also when forsd has ended.
func (m *subnetManager) disconnect() {
	if m.linked {
		m.linked = false
		if m.side.forsd != nil {
			m.side.forsd.d.inbox.pluginEvent(plugin.Disconnected{At: time.Now(), Err: errors.New("the world has cut it")})
		}
	}
}

// tell passes an event to forsd by the plugin.
func (m *subnetManager) tell(e plugin.Event) {
	if m.linked {
		m.side.forsd.d.inbox.pluginEvent(e)
	}
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

// route gets the tables: of the plugin, of the file, or of its own.
func (m *subnetManager) route() {
	if !m.linked {
		m.routeByFile()
		return
	}
	m.requests++
	type reply struct {
		tables *lft.Tables
		err    error
		there  bool
	}
	r := &reply{}
	d, request := m.side.forsd.d, m.requests
	ctx, cancel := context.WithTimeout(m.side.forsd.ctx, deadline)
	forsd := m.side.forsd
	forsd.busy++
	go func() {
		r.tables, r.err = d.tablesAsked(ctx, plugin.Request{At: time.Now(), Number: request, MaxLID: ib.LID(len(m.w.plant.owner) - 1), Sight: plugin.Sight{Fabric: m.found}})
		r.there = true
		forsd.busy--
	}()
	var poll func()
	poll = func() {
		if !r.there && ctx.Err() == nil {
			m.step(time.Millisecond, poll)
			return
		}
		late := ctx.Err() != nil
		cancel()
		switch {
		case !m.linked:
			m.routeByFile()
		case late || r.err != nil:
			result := plugin.Declined
			if late {
				result = plugin.Late
			}
			m.tell(plugin.Outcome{At: time.Now(), Request: request, Result: result})
			m.routeByFile()
		default:
			m.tell(plugin.Outcome{At: time.Now(), Request: request, Result: plugin.Installed})
			tables := make([][]uint8, len(m.w.plant.nodes))
			for i := range r.tables.Switches {
				s := &r.tables.Switches[i]
				if node := m.w.plant.whole.Find(s.GUID); node >= 0 {
					tables[node] = s.Out
				}
			}
			m.upload(tables, opensm.PluginEngine, true)
		}
	}
	m.step(time.Millisecond, poll)
}

// routeByFile reads the table file. Without one OpenSM makes its own tables.
func (m *subnetManager) routeByFile() {
	text, err := os.ReadFile(m.side.tableFile)
	if m.deaf {
		m.deaf, err = false, errors.New("input/output error")
	}
	if err == nil {
		var tables [][]uint8
		if tables, err = m.w.plant.readTables(text); err == nil {
			m.upload(tables, opensm.FileEngine, false)
			return
		}
	}
	m.w.note("OpenSM makes its own tables: %v", err)
	m.w.spoilt = true
	m.step(m.w.between(0, 200), m.logged)
	m.upload(m.w.plant.minHop(m.links), "updn", false)
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

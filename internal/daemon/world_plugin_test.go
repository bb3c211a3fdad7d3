package daemon

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/topology"
)

// pluginEnd is forsd's plugin in OpenSM, and its connection to the forsd beside it.
type pluginEnd struct {
	linked   bool          // connected
	sessions int           // connections so far
	lag      time.Duration // how long a message is under way, at most
	arrives  time.Time     // the last message
	underWay int           // messages
	requests uint64
	answers  *sync.WaitGroup         // forsd's work for this connection
	conclude context.CancelCauseFunc // of the last question, in forsd

	held, wish [][]uint8 // [node] the tables installed last, and those that it would have again
	outdated   bool      // another manager has been the master since
	whose      *process  // the forsd that has given them, nil if they are a file's, however old
}

// deadline is how long the plugin waits for tables.
const deadline = 50 * time.Millisecond

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
		m.linked, m.sessions, m.answers, m.conclude = true, m.sessions+1, &sync.WaitGroup{}, nil
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

// disconnect ends the connection, also when forsd has ended. What was sent before arrives.
func (m *subnetManager) disconnect() {
	if !m.linked {
		return
	}
	answers, conclude := m.answers, m.conclude
	m.send(func(p *process) {
		if conclude != nil {
			conclude(errors.New("the world has cut it"))
		}
		go func() {
			answers.Wait()
			p.d.inbox.pluginEvent(plugin.Disconnected{At: time.Now(), Err: errors.New("the world has cut it")})
		}()
	})
	m.linked = false
}

// tell passes an event to forsd by the plugin.
func (m *subnetManager) tell(e plugin.Event) {
	m.send(func(p *process) { p.d.inbox.pluginEvent(e) })
}

// send has forsd do something when a message of the plugin has arrived there: after those before,
// and when forsd has a processor.
func (m *subnetManager) send(do func(p *process)) {
	p, now := m.side.forsd, time.Now()
	if !m.linked || p == nil {
		return
	}
	at := now
	if m.lag > 0 {
		at = at.Add(time.Duration(m.w.rng.Int64N(int64(m.lag))))
	}
	for _, other := range []time.Time{m.arrives, m.side.stalled} {
		if other.After(at) {
			at = other
		}
	}
	if m.arrives = at; !at.After(now) {
		do(p)
		return
	}
	m.underWay++
	m.w.whenRuns(m.side, at.Sub(now), func() {
		if m.underWay--; m.side.forsd == p {
			do(p)
		}
	})
}

// late has the plugin's messages be under way for some time each, or no longer.
func (w *world) late(r *rand.Rand) {
	w.manager.lag = time.Duration(r.IntN(4)*r.IntN(100)) * time.Millisecond
	w.note("messages of the plugin are under way for up to %v%s", w.manager.lag, w.where())
}

// reply is what forsd says to a question.
type reply struct {
	tables *lft.Tables
	err    error
	there  bool
	at     time.Time // it is in OpenSM
}

// ask has the plugin ask forsd for tables. Without them it makes some of those that it holds.
func (m *subnetManager) ask() {
	if !m.linked {
		m.mend()
		return
	}
	m.requests++
	r, request, session, due := &reply{}, m.requests, m.sessions, time.Now().Add(deadline)
	asked, answers := plugin.Request{At: time.Now(), Number: request, MaxLID: ib.LID(len(m.w.plant.owner) - 1), Sight: plugin.Sight{Fabric: m.found}}, m.answers
	m.send(func(p *process) {
		if m.conclude != nil {
			m.conclude(errors.New("OpenSM asks for tables anew"))
		}
		limited, stop := context.WithTimeout(p.ctx, deadline)
		ctx, cancel := context.WithCancelCause(limited)
		m.conclude = cancel
		p.busy++
		answers.Go(func() {
			defer stop()
			r.tables, r.err = p.d.tablesAsked(ctx, asked)
			r.there = true
			p.busy--
		})
	})
	var poll func()
	poll = func() {
		now := time.Now()
		if r.there && r.at.IsZero() {
			r.at = now
			if m.lag > 0 {
				r.at = now.Add(time.Duration(m.w.rng.Int64N(int64(m.lag))))
			}
		}
		arrived := r.there && !now.Before(r.at)
		switch {
		case m.sessions != session || !m.linked:
			m.mend()
		case !arrived && now.Before(due):
			m.step(time.Millisecond, poll)
		case !arrived:
			m.done(request, plugin.Late)
			m.mend()
		case r.err != nil:
			m.done(request, plugin.Declined)
			m.mend()
		default:
			m.done(request, plugin.Installed)
			m.install(r.tables)
		}
	}
	m.step(time.Millisecond, poll)
}

// done tells forsd what has become of a question.
func (m *subnetManager) done(request uint64, result plugin.Result) {
	m.send(func(p *process) {
		if request == m.requests && m.conclude != nil {
			m.conclude(errors.New("OpenSM has gone on"))
		}
		p.d.inbox.pluginEvent(plugin.Outcome{At: time.Now(), Request: request, Result: result})
	})
}

// install loads forsd's tables. The plugin wishes for what they replace where that leads nowhere now.
func (m *subnetManager) install(t *lft.Tables) {
	p := m.w.plant
	m.held, m.outdated, m.whose = make([][]uint8, len(p.nodes)), false, m.side.forsd
	if m.wish == nil {
		m.wish = make([][]uint8, len(p.nodes))
	}
	for i := range t.Switches {
		if node := int(p.whole.Find(t.Switches[i].GUID)); node >= 0 {
			m.held[node] = p.empty()
			copy(m.held[node], t.Switches[i].Out)
			if m.wish[node] == nil {
				m.wish[node] = bytes.Clone(m.held[node])
			}
		}
	}
	p.ways(m.links, func(i, lid int, ways []uint8) {
		if m.held[i] == nil || m.wish[i] == nil {
			return
		}
		held, wish := m.held[i][lid], &m.wish[i][lid]
		if ways == nil || *wish == noEntry || held != noEntry && slices.Contains(ways, *wish) {
			*wish = held
		}
	})
	m.upload(copyOf(m.held), opensm.PluginEngine, true)
}

func copyOf(tables [][]uint8) [][]uint8 {
	out := make([][]uint8, len(tables))
	for i := range out {
		out[i] = bytes.Clone(tables[i])
	}
	return out
}

// mend loads tables without forsd: those that the plugin holds or, after OpenSM's start, those of
// the table file, where they lead on. Without any, OpenSM makes its own.
func (m *subnetManager) mend() {
	p := m.w.plant
	for _, suffix := range []string{"", ".last"} {
		if m.held == nil {
			m.held, _ = m.readFile(m.side.tableFile + suffix)
			m.whose = nil
		}
	}
	m.w.spoilt = m.w.spoilt || m.held == nil || m.outdated
	tables := p.mend(m.links, m.held, m.wish)
	changed := 0
	for i := range tables {
		n := &p.nodes[i]
		n.mended = append(n.mended, bytes.Clone(tables[i]))
		for lid, port := range tables[i] {
			if m.held == nil {
				continue
			}
			if other := m.held[i] == nil || port != m.held[i][lid]; other || m.whose == nil || m.whose != m.side.forsd { // forsd need not know of those either
				if n.strays == nil {
					n.strays = map[int]bool{}
				}
				if n.strays[lid] = true; other {
					changed++
				}
			}
		}
	}
	m.w.note("the plugin makes tables: %d entries are not those that it holds", changed)
	m.upload(tables, opensm.PluginEngine, false)
}

// unheard reports whether packets from a switch to a LID meet an entry that OpenSM's plugin has made
// without forsd, and of which forsd has not heard: it has not read it, and counts on others.
func (w *world) unheard(from, lid int) bool {
	return w.astray(from, lid, w.forsd.d.desk.Possible())
}

// astray reports whether packets from a switch to a LID meet an entry that OpenSM's plugin has made
// without forsd, and that is not in some tables.
func (w *world) astray(from, lid int, on []*lft.Tables) bool {
	p := w.plant
	ports, ok := p.route(nil, from, lid, true)
	nodes := []int{from}
	for _, r := range ports {
		if nodes = append(nodes, int(p.far(r).Node)); ok && p.owner[lid] == nodes[len(nodes)-1] {
			nodes = nodes[:len(nodes)-1]
		}
	}
	return slices.ContainsFunc(nodes, func(i int) bool {
		n := &p.nodes[i]
		return n.isSwitch && n.made(lid) && !counted(on, p.guid(i), lid, n.table[lid])
	})
}

// made reports whether OpenSM's plugin has made the present entry for a LID without forsd, or the one
// before it.
func (n *machine) made(lid int) bool {
	return n.strays[lid] && slices.ContainsFunc(n.mended, func(t []uint8) bool { return t[lid] == n.table[lid] })
}

// counted reports whether some tables send a LID by a port.
func counted(on []*lft.Tables, guid ib.GUID, lid int, port uint8) bool {
	return slices.ContainsFunc(on, func(t *lft.Tables) bool {
		if t == nil {
			return false
		}
		at := t.Find(guid)
		return at >= 0 && lid < len(t.Switches[at].Out) && t.Switches[at].Out[lid] == port
	})
}

// mend returns tables that lead to every LID by the fewest cables: by those wished for, or by
// those held, where these do so. Of others, those are preferred that the tables held use.
func (p *plant) mend(links []bool, held, wish [][]uint8) [][]uint8 {
	tables, used := make([][]uint8, len(p.nodes)), make([][256]bool, len(p.nodes))
	for i := range p.nodes {
		if p.nodes[i].isSwitch {
			tables[i] = p.empty()
		}
		if held != nil {
			for _, port := range held[i] {
				used[i][port] = true
			}
		}
	}
	p.ways(links, func(i, lid int, ways []uint8) {
		if ways == nil {
			return
		}
		for _, from := range [][][]uint8{wish, held} {
			if from != nil && from[i] != nil && slices.Contains(ways, from[i][lid]) {
				tables[i][lid] = from[i][lid]
				return
			}
		}
		tables[i][lid] = ways[lid%len(ways)]
		for n := range ways {
			if port := ways[(lid+n)%len(ways)]; used[i][port] {
				tables[i][lid] = port
				return
			}
		}
	})
	return tables
}

// ways tells for each switch and LID which ports begin a way of the fewest cables, nil if none does.
func (p *plant) ways(links []bool, tell func(node, lid int, ways []uint8)) {
	for to := range p.nodes {
		far := make([]int, len(p.nodes))
		far[to] = 1
		for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			if at != to && !p.nodes[at].isSwitch {
				continue
			}
			for k, c := range p.at[at] {
				if c < 0 || !links[c] {
					continue
				}
				next := int(p.far(topology.PortRef{Node: int32(at), Port: uint8(k)}).Node)
				if far[next] == 0 {
					far[next] = far[at] + 1
					queue = append(queue, next)
				}
			}
		}
		for i := range p.nodes {
			if !p.nodes[i].isSwitch {
				continue
			}
			var ways []uint8
			for k, c := range p.at[i] {
				if c >= 0 && links[c] && far[i] > 0 && far[p.far(topology.PortRef{Node: int32(i), Port: uint8(k)}).Node] == far[i]-1 {
					ways = append(ways, uint8(k))
				}
			}
			if i == to {
				ways = []uint8{0}
			}
			for _, lid := range p.lids[to] {
				tell(i, lid, ways)
			}
		}
	}
}

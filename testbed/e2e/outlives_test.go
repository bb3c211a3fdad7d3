package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/arrival"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// losses are the cables that a site's fabric has lost, between switches, by one end each.
type losses struct {
	*test
	whole *topology.Fabric // as generated
	sm    int32            // the switch at which OpenSM is
	lost  map[topology.PortRef]bool
	rng   *rand.Rand
}

func newLosses(x *test, seed uint64) *losses {
	f := x.options.Fabric
	l := &losses{x, f, 0, map[topology.PortRef]bool{}, rand.New(rand.NewPCG(seed, 1))}
	for i := range f.Nodes {
		if f.Nodes[i].GUID.String() == x.options.Host {
			l.sm = f.Nodes[i].Ports[1].Peer
		}
	}
	return l
}

// end is the end of a cable by which it goes.
func (l *losses) end(r topology.PortRef) topology.PortRef {
	if p := l.whole.At(r); p.Peer < r.Node {
		return topology.PortRef{Node: p.Peer, Port: p.PeerPort}
	}
	return r
}

// trunk is a cable between switches, by the end by which it goes.
func (l *losses) trunk() topology.PortRef {
	for {
		n := int32(l.rng.IntN(len(l.whole.Nodes)))
		if trunks := l.whole.Trunks(n); l.whole.Nodes[n].Kind == topology.Switch && len(trunks) > 0 {
			return l.end(topology.PortRef{Node: n, Port: trunks[l.rng.IntN(len(trunks))]})
		}
	}
}

// toggle loses or returns a cable, or a whole switch without OpenSM.
func (l *losses) toggle() {
	l.Helper()
	var switches []int32
	for i := range l.whole.Nodes {
		if l.whole.Nodes[i].Kind == topology.Switch {
			switches = append(switches, int32(i))
		}
	}
	s := switches[l.rng.IntN(len(switches))]
	var pull, put []topology.PortRef
	trunks := l.whole.Trunks(s)
	if s == l.sm || l.rng.IntN(3) > 0 {
		c := l.end(topology.PortRef{Node: s, Port: trunks[l.rng.IntN(len(trunks))]})
		if l.lost[c] {
			put = append(put, c)
		} else {
			pull = append(pull, c)
		}
	} else {
		away := l.rng.IntN(2) == 0
		for _, p := range trunks {
			if c := l.end(topology.PortRef{Node: s, Port: p}); l.lost[c] && !away {
				put = append(put, c)
			} else if !l.lost[c] && away {
				pull = append(pull, c)
			}
		}
	}
	if len(l.lost)+len(pull) > 2*len(switches) { // not all of the fabric
		pull, put = nil, slices.Collect(maps.Keys(l.lost))
	}
	l.change(pull, put)
}

// change pulls and puts back cables, and waits until OpenSM has swept once since.
func (l *losses) change(pull, put []topology.PortRef) {
	l.Helper()
	l.cables(pull, put)
	// The second one begins after the change in any case.
	for range 2 {
		l.ok(l.swept())
	}
}

// cables pulls and puts back cables.
func (l *losses) cables(pull, put []topology.PortRef) {
	l.Helper()
	ports := func(refs []topology.PortRef) (ports []ibsim.Port) {
		for _, r := range refs {
			ports = append(ports, ibsim.Port{Node: l.whole.Nodes[r.Node].GUID.String(), Port: int(r.Port)})
		}
		return ports
	}
	l.ok(l.Sim.UnlinkAll(l.ctx, ports(pull)), l.Sim.RelinkAll(l.ctx, ports(put)))
	for _, c := range pull {
		l.lost[c] = true
	}
	for _, c := range put {
		delete(l.lost, c)
	}
}

// swept makes OpenSM sweep, and waits for the end. A signal during a sweep may be lost.
func (l *losses) swept() error {
	from := l.SM.LogSize()
	for {
		if err := l.SM.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		_, _, err := l.SM.WaitLog(ctx, ibsim.SubnetUp, from)
		cancel()
		if err == nil || l.ctx.Err() != nil {
			return err
		}
	}
}

// arrives walks all LIDs through the tables of the switches, over the existing cables.
func (l *losses) arrives(judge func(*topology.Fabric, int32, *lft.Tables) error) error {
	text, err := os.ReadFile(filepath.Join(l.ManagerDir(), "guid2lid"))
	if err != nil {
		return err
	}
	ranges, err := topology.ReadGUID2LID(text)
	if err != nil {
		return err
	}
	f := l.whole.Clone()
	for _, e := range f.EndPorts() {
		p := f.At(e.PortRef)
		p.LID, p.LMC = ranges[e.GUID].Min, 0
	}
	if err := f.ApplyGUID2LID(ranges); err != nil {
		return err
	}
	for c := range l.lost {
		f.Disconnect(c)
	}
	tables, err := l.ReadTables(l.ctx)
	if err != nil {
		return err
	}
	if err := judge(f, l.sm, tables); err != nil {
		return fmt.Errorf("without %d cables: %w", len(l.lost), err)
	}
	return nil
}

// outliving are fabrics of two levels and of three.
func outliving() map[string]Options {
	return map[string]Options{
		"two levels":   {Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 5, Hosts: []int{3}}), LMC: 2},
		"three levels": {Fabric: fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2}), LMC: 2},
	}
}

// TestOutlives checks that routing outlives forsd, by the plugin and by files, on fabrics of two
// levels and of three. Forsd is stopped, killed, hangs, or has lost its disks; cables and
// switches are lost and return, one change after the other. One sweep after each change, every
// LID arrives from every switch that is connected to it, none leads to a dead port, and no
// channels wait for one another in a ring. When forsd is back, the previous plan is in force.
// FORS_LONG=1 has 200 changes in each of the ways.
func TestOutlives(t *testing.T) {
	t.Parallel()
	changes := many(6, 200)
	for shape, o := range outliving() {
		for _, way := range []string{"plugin", "files"} {
			t.Run(shape+" by "+way, func(t *testing.T) {
				t.Parallel()
				o := o
				// Requests to a switch that is gone are given up, as on real adapters.
				o.Manager = func(m *ibsim.OpenSMOptions) { m.Rival = true }
				if way == "plugin" {
					o = byPlugin(t, o)
					o.Deadline = 100 * time.Millisecond
				}
				x, _ := up(t, 2*time.Hour, o)
				l := newLosses(x, uint64(len(shape)+len(way)))
				for _, fate := range []fate{stopped, killed, hung, diskless} {
					l.outlive(fate, changes)
				}
			})
		}
	}
}

// fate is how forsd fails, and how it comes back.
type fate struct {
	name       string
	away, back func(x *test)
}

var (
	stopped = fate{"stopped", func(x *test) {
		if err := x.Forsd.Stop(x.ctx); err != nil && !x.Forsd.Overrun() {
			x.Fatal(err)
		}
		x.ok(x.Sim.DetachDead(x.ctx))
		x.withdraw()
	}, func(x *test) { x.ok(x.StartForsd()) }}
	killed = fate{"killed", func(x *test) { x.ok(x.KillForsd(x.ctx)); x.withdraw() }, func(x *test) { x.ok(x.StartForsd()) }}
	// By files systemd's watchdog ends a forsd that hangs, and starts it again, which takes it
	// too long here.
	hung = fate{"hung", func(x *test) {
		x.ok(syscall.Kill(x.Forsd.PID(), syscall.SIGSTOP))
		if x.options.Plugin == "" {
			killed.away(x)
		}
	}, func(x *test) {
		if x.options.Plugin == "" {
			killed.back(x)
		} else {
			x.ok(syscall.Kill(x.Forsd.PID(), syscall.SIGCONT))
		}
	}}
	diskless = fate{"without its disks", func(x *test) {
		for _, dir := range []string{x.StateDir(), filepath.Dir(x.TableFile())} {
			if err := syscall.Mount("fors", dir, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
				x.Fatalf("this test mounts a file system: %v", err)
			}
			x.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		}
	}, func(x *test) {
		x.ok(syscall.Unmount(x.StateDir(), syscall.MNT_DETACH), syscall.Unmount(filepath.Dir(x.TableFile()), syscall.MNT_DETACH))
	}}
)

// withdraw does the work of systemd when forsd has ended.
func (x *test) withdraw() {
	x.Helper()
	said, err := exec.CommandContext(x.ctx, x.options.Forsd, "-config", x.ConfigFile(), "-withdraw").CombinedOutput()
	if err != nil {
		x.Fatalf("forsd -withdraw: %v\n%s", err, said)
	}
}

// outlive makes forsd fail, the fabric change, and forsd come back.
func (l *losses) outlive(f fate, changes int) {
	l.Helper()
	before, err := l.Client.Status(l.ctx)
	l.ok(err)
	f.away(l.test)
	// A running forsd gives its own tables, which on three levels leave out destinations
	// without a way up and then down.
	judge := arrival.Check
	if f.name == diskless.name && l.options.Plugin != "" && l.whole.Find(fabgen.TopGUID) != topology.None {
		judge = arrival.Sound
	}
	for n := range changes {
		l.toggle()
		if err := l.arrives(judge); err != nil {
			l.Fatalf("forsd is %s, change %d: %v", f.name, n+1, err)
		}
	}
	l.change(nil, slices.Collect(maps.Keys(l.lost)))
	if err := l.arrives(judge); err != nil {
		l.Fatalf("forsd is %s, all is back: %v", f.name, err)
	}
	f.back(l.test)
	ctx, cancel := l.within()
	defer cancel()
	var st *api.Status
	l.ok(l.Until(ctx, func() (err error) { // one that hung may believe that it is at rest
		if st, err = l.Client.Status(ctx); err == nil {
			err = settled(st)
		}
		if err == nil {
			_, err = l.Check(ctx)
		}
		return err
	}))
	switch {
	case st.Epoch < before.Epoch, f.name == stopped.name && st.Epoch != before.Epoch, f.name == killed.name && st.Epoch != before.Epoch:
		l.Errorf("forsd was %s with epoch %d, and on the same fabric has epoch %d", f.name, before.Epoch, st.Epoch)
	}
	l.Logf("forsd was %s for %d changes", f.name, changes)
}

package libforsmpi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
)

// TestDrains takes a cable, a spine, two parts at once and a leaf out of a fabric on which
// ranks exchange, pulls the parts that are safe to pull, and puts them back. No fragment is
// lost, doubled or damaged; once a part is safe no rank sends over it; pulling it changes no
// plan; and a forsd that is killed during the drain keeps to it.
func TestDrains(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "../../examples/eventbuilder.c")
	n := side()
	x, st, _ := up(t, n)
	log := t.TempDir()
	builders, err := job{ranks: n * n, command: []string{program, "-b", "2048"}}.with(shim, x.table, "FORS_LOG="+log).start(x.ctx)
	x.ok(err)
	x.grows(log, st.Epoch)
	var seen []window
	for i, parts := range [][]string{{fmt.Sprintf("Leaf000/%d", n+3)}, {"Spine002"}, {fmt.Sprintf("Leaf001/%d", n+2), "Spine003"}} {
		order, err := x.Client.Drain(x.ctx, api.DrainRequest{Parts: parts, Reason: "a test"})
		x.ok(err)
		t.Logf("%v: %d phases instead of %d", parts, order.Cost.Phases, order.Cost.PhasesNow)
		if i == 1 { // during the change
			x.ok(x.KillForsd(x.ctx), x.StartForsd())
		}
		seen = append(seen, x.pulled(log, parts)...)
		drained := x.idle()
		_, err = x.Client.Undrain(x.ctx, "all")
		x.ok(err)
		st = x.until("what was drained is back in the plan", func(now *api.Status) bool {
			return now.State == "idle" && now.Epoch > drained.Epoch && now.Phases == n*n-1 && len(now.Drains) == 0
		})
		x.grows(log, st.Epoch)
	}
	x.ok(builders.interrupt())
	x.unharmed(builders, log, n*n, seen)
}

// TestDrainLeaf does the same with a leaf. Its hosts belong to a job that uses all of them,
// which has to end before the leaf is safe; the others go on.
func TestDrainLeaf(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "../../examples/eventbuilder.c")
	n := side()
	x, _, _ := up(t, n)
	table, log := x.table, t.TempDir()
	var hosts []string
	for r := range n * n {
		hosts = append(hosts, fmt.Sprintf("Hca%04d", r))
	}
	all, err := x.Client.CreateJob(x.ctx, api.JobRequest{Name: "all", Hosts: hosts})
	x.ok(err)
	builders, err := job{ranks: n * n, command: []string{program, "-b", "2048"}}.with(shim, table+"?job=all", "FORS_LOG="+log).start(x.ctx)
	x.ok(err)
	x.grows(log, all.Epoch)
	part := fmt.Sprintf("Leaf%03d", n-1)
	order, err := x.Client.Drain(x.ctx, api.DrainRequest{Parts: []string{part}})
	x.ok(err)
	if len(order.Cost.Hosts) != n || len(order.Cost.Jobs) != 1 || order.Cost.Phases != n*n-n-1 {
		t.Errorf("it costs %+v", order.Cost)
	}
	x.drainIs("held up by the job", func(d *api.Drain) bool {
		return d.State == "draining" && slices.ContainsFunc(d.Uses, func(u string) bool { return strings.Contains(u, fmt.Sprintf("has %d of its hosts", n)) })
	})
	x.ok(builders.interrupt())
	x.unharmed(builders, log, n*n, nil)
	if _, err := x.Client.RemoveJob(x.ctx, "all"); err != nil {
		t.Fatal(err)
	}
	log = t.TempDir()
	builders, err = job{ranks: n*n - n, command: []string{program, "-b", "2048"}}.with(shim, table, "FORS_LOG="+log).start(x.ctx)
	x.ok(err)
	seen := x.pulled(log, []string{part})
	x.ok(builders.interrupt())
	x.unharmed(builders, log, n*n-n, seen)
}

// window is a period, and the conditions for messages sent in it: they arrive by the tables,
// and not over the cut cables.
type window struct {
	from, to int64
	sight    *e2e.Sight
	cut      []api.DrainedCable
}

// pulled waits until the drained parts are safe, kills forsd, pulls the parts and puts them
// back. Neither changes the plan.
func (x *site) pulled(log string, parts []string) []window {
	x.Helper()
	x.drainIs("safe", func(d *api.Drain) bool { return d.State == "safe" })
	safe := now()
	drains, err := x.Client.Drains(x.ctx)
	x.ok(err)
	var cut []api.DrainedCable
	for _, d := range drains {
		cut = append(cut, d.Cables...)
	}
	st := x.idle()
	first, err := x.Look(x.ctx)
	x.ok(err)
	x.grows(log, st.Epoch)
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	phases := st.Phases // the number may differ if the other forsd cannot be asked
	st = x.until("the forsd after it is at rest", func(now *api.Status) bool { return now.Ready && now.OpenSM.TablesMatch && now.State == "idle" })
	if st.Phases != phases {
		x.Errorf("a plan of %d phases was in force, and after a restart one of %d is", phases, st.Phases)
	}
	node := func(verb func(node string) error, port func(node string, port int) error) {
		for _, part := range parts {
			name, number, is := strings.Cut(part, "/")
			if !is {
				x.ok(verb(name))
				continue
			}
			var n int
			_, err := fmt.Sscan(number, &n)
			x.ok(err, port(name, n))
		}
	}
	node(func(n string) error { return x.Sim.UnlinkNode(x.ctx, n) }, func(n string, p int) error { return x.Sim.Unlink(x.ctx, n, p) })
	x.changed("pulled", len(cut), st.Epoch)
	second, err := x.Look(x.ctx)
	x.ok(err)
	gone := now()
	x.grows(log, st.Epoch)
	still := now()
	node(func(n string) error { return x.Sim.RelinkNode(x.ctx, n) }, func(n string, p int) error { return x.Sim.Relink(x.ctx, n, p) })
	x.changed("put back", 0, st.Epoch)
	x.drainIs("safe all the while", func(d *api.Drain) bool { return d.State == "safe" })
	return []window{{safe, gone, first, cut}, {gone, still, second, cut}}
}

// changed waits until forsd is at rest on a fabric from which that many cables are missing,
// with the same plan and without an alarm.
func (x *site) changed(how string, missing int, epoch uint64) {
	x.Helper()
	st, err := x.Settled(x.ctx, func(top *api.Topology) error {
		n := 0
		for _, l := range top.Leaves {
			for _, c := range l.Cables {
				if c == "missing" {
					n++
				}
			}
		}
		if n != missing {
			return fmt.Errorf("%d cables are missing, not %d", n, missing)
		}
		return nil
	})
	x.ok(err)
	if st.Epoch != epoch {
		x.Errorf("%s, epoch %d takes the place of %d: %v", how, st.Epoch, epoch, st.LastEvent.What)
	}
	for _, w := range st.Warnings {
		if w.Code != "drained" && strings.HasPrefix(w.Code, "cable") || strings.HasPrefix(w.Code, "spine") || strings.HasPrefix(w.Code, "leaf") || strings.HasPrefix(w.Code, "host") {
			x.Errorf("%s: %+v", how, w)
		}
	}
}

// idle waits until nothing is under way.
func (x *site) idle() *api.Status {
	x.Helper()
	return x.until("nothing is under way", func(now *api.Status) bool { return now.State == "idle" && now.OpenSM.TablesMatch })
}

// until waits for a status.
func (x *site) until(what string, good func(*api.Status) bool) (st *api.Status) {
	x.Helper()
	x.ok(x.Until(x.ctx, func() (err error) {
		if st, err = x.Client.Status(x.ctx); err == nil && !good(st) {
			err = fmt.Errorf("wait until %s: state %s, epoch %d, last event %+v, warnings %v", what, st.State, st.Epoch, st.LastEvent, st.Warnings)
		}
		return err
	}))
	return st
}

// drainIs waits until all drains are as expected.
func (x *site) drainIs(what string, good func(*api.Drain) bool) {
	x.Helper()
	x.ok(x.Until(x.ctx, func() error {
		all, err := x.Client.Drains(x.ctx)
		if err == nil && (len(all) == 0 || slices.ContainsFunc(all, func(d api.Drain) bool { return !good(&d) })) {
			err = fmt.Errorf("wait until drains are %s: %+v", what, all)
		}
		return err
	}))
}

// unharmed waits for event builders and checks that no message was lost, and that the messages
// of each window meet its conditions.
func (x *site) unharmed(builders *running, log string, ranks int, windows []window) {
	x.Helper()
	out, _ := builders.wait(x)
	if !strings.HasSuffix(out, "lost 0, doubled 0, damaged 0\n") {
		x.Errorf("output %q", out)
	}
	logs := readLogs(x, log, ranks)
	checkEpochs(x, logs)
	checkPairs(x, logs)
	for i, w := range windows {
		walker, walked := newWalker(w.sight.Tree.Fabric, w.sight.Tables), 0
		f := walker.fabric
		for _, lines := range logs {
			for _, l := range lines {
				if l.what != "send" || l.time < w.from || l.time > w.to || l.srcGUID == l.dstGUID {
					continue
				}
				walked++
				for _, p := range walker.links(x, l) {
					at := f.At(p)
					for _, c := range w.cut {
						if f.Nodes[p.Node].GUID == c.Leaf && p.Port == c.Port || f.Nodes[at.Peer].GUID == c.Leaf && at.PeerPort == c.Port {
							x.Fatalf("window %d: %+v goes over port %d of %s, which is drained", i, l, c.Port, c.Leaf)
						}
					}
				}
			}
		}
		if walked == 0 {
			x.Errorf("window %d: nothing was sent", i)
		}
		x.Logf("window %d, %.1f s: %d transfers, none over %d cables that are drained", i, float64(w.to-w.from)/1e9, walked, len(w.cut))
	}
}

// ok ends the test at the first error.
func (x *site) ok(errs ...error) {
	x.Helper()
	for _, err := range errs {
		if err != nil {
			x.Fatal(err)
		}
	}
}

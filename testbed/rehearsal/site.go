package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// site is a fabric with two managers, and the world that it should be.
type site struct {
	Managers
	o     *Options
	world *world
	acted time.Time    // when the last change was made
	still time.Time    // when forsd was at rest after it
	lives map[int]life // [process] noted last
}

// Hasty are sections of forsd.yaml that give forsd a patience of seconds instead of an
// operator's minutes. An isolated cable does not come back by itself within a run, however the
// clock is stepped, nor is one isolated because it was pulled often. Counters are read as often
// as the machine that plays all switches can answer in addition to the events.
func Hasty(every time.Duration) string {
	short := max(4*time.Second, 2*every)
	return fmt.Sprintf(`damping: {hold_down: 1s, max_hold_down: 2s, flaps: 3, window: 5s}
retry: {first: 100ms, max: 1s}
drains: {grace: 300ms}
jobs: {base_lids: never}
cables: {mode: isolate, every: %v, max_cost: 1000, short: %v, short_ber: 1.3e-11, long: %v, long_ber: 1.3e-11, test: 10h, probation: 1s, flaps: 1000000}
`, every, short, 2*short)
}

// start brings up the site.
func start(ctx context.Context, o *Options) (s *site, err error) {
	f := ibsim.Simulable(o.Fabric)
	base, err := topology.Recognise(f)
	if err != nil {
		return nil, err
	}
	tree, err := e2e.Fit(f, base)
	if err != nil {
		return nil, err
	}
	if len(tree.Servers) < 3 {
		return nil, fmt.Errorf("the fabric has %d servers: a rehearsal takes 3", len(tree.Servers))
	}
	ends := [2]ib.GUID{}
	for i, n := range []int{tree.Servers[0], tree.Servers[len(tree.Servers)-1]} {
		ends[i] = f.Nodes[f.At(tree.Hosts[n].At).Peer].GUID
	}
	conf := func(priority string) map[string]string {
		all := map[string]string{"sm_priority": priority, "force_link_width": "0"}
		for key, value := range o.Conf {
			all[key] = value
		}
		return all
	}
	s = &site{o: o, lives: map[int]life{}}
	every := max(500*time.Millisecond, time.Duration(len(tree.Leaves)*tree.Lanes)*8*time.Millisecond)
	s.First, err = e2e.New(ctx, e2e.Options{Fabric: f, LMC: o.LMC, Host: ends[0].String(), Other: ends[1].String(), Forsd: o.Forsd, Plugin: o.Plugin,
		Config: Hasty(every), Conf: conf("10"), Deadline: 10 * time.Second, Pair: true, Reports: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.Second, err = s.First.Second(conf("5")); err != nil {
		return nil, err
	}
	s.First.Judge.Everyone = len(tree.Servers) == hosts(f)
	ctx, cancel := s.patience(ctx)
	defer cancel()
	if err := s.Bring(ctx); err != nil {
		return nil, fmt.Errorf("the site did not come up: %w; the logs of the programs are in %s", err, s.KeepLogs())
	}
	if f, err = s.First.Fabric(ctx); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(s.First.StateDir(), "baseline.json"))
	if err != nil {
		return nil, err
	}
	if base, err = topology.ReadBaseline(data); err != nil {
		return nil, err
	}
	s.world, err = newWorld(f, base, f.Find(ends[0]), f.Find(ends[1]))
	return s, err
}

// hosts counts the ports of adapters that have cables.
func hosts(f *topology.Fabric) (n int) {
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if f.Nodes[i].Kind == topology.Adapter && f.Nodes[i].Ports[p].Connected() {
				n++
			}
		}
	}
	return n
}

func (s *site) close() error {
	var err error
	if s.Second != nil {
		err = s.Second.Close()
	}
	return errors.Join(err, s.First.Close())
}

// patience limits how long anything may take to come: large fabrics are slow to simulate.
func (s *site) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := 2*time.Minute + time.Duration(len(s.o.Fabric.Nodes))*200*time.Millisecond
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
}

// carry makes an event happen, waits until forsd has done its work for it, and judges the result.
func (s *site) carry(ctx context.Context, e event, before, after *world) (*api.Status, error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	s.world = after
	act := func() error {
		s.acted = time.Now()
		return s.change(ctx, e, before.down(), after.down())
	}
	var err error
	if e.with == "" {
		err = act()
	} else {
		err = s.Disturb(ctx, e.with, time.Duration(e.millis)*time.Millisecond, act)
	}
	if err != nil {
		return nil, err
	}
	return s.rest(ctx)
}

// change changes the fabric, or asks forsd for something until it does it.
func (s *site) change(ctx context.Context, e event, before, after []topology.PortRef) error {
	less := func(a, b []topology.PortRef) (out []ibsim.Port) {
		for _, p := range a {
			if !slices.Contains(b, p) {
				out = append(out, ibsim.Port{Node: s.world.start.Fabric.Nodes[p.Node].GUID.String(), Port: int(p.Port)})
			}
		}
		return out
	}
	c := s.Leader.Client
	switch e.change {
	case "drain":
		return s.Leader.Until(ctx, func() error {
			_, err := c.Drain(ctx, api.DrainRequest{Parts: e.where, Reason: "rehearsal"})
			return err
		})
	case "undrain":
		return s.Leader.Until(ctx, func() error {
			_, err := c.Undrain(ctx, e.where...)
			return err
		})
	case "job":
		q := api.JobRequest{Name: e.where[0], LeaseSeconds: 20, SkipUnknown: true}
		for n, i := range s.world.start.Servers {
			if n%4 == 1 && len(q.Hosts) < 64 {
				q.Hosts = append(q.Hosts, s.world.start.Hosts[i].GUID.String())
			}
		}
		return s.Leader.Until(ctx, func() error {
			_, err := c.CreateJob(ctx, q)
			return err
		})
	}
	if cut := less(after, before); len(cut) > 0 {
		return s.First.Sim.UnlinkAll(ctx, cut)
	}
	if mend := less(before, after); len(mend) > 0 {
		return s.First.Sim.RelinkAll(ctx, mend)
	}
	return nil
}

// picture lists the numbers of missing cables and of hosts, which forsd must show as they are.
func picture(t *api.Topology) string {
	missing := func(cables []string) int { return strings.Count(strings.Join(cables, " "), "missing") }
	all := []int{len(t.Hosts)}
	for i := range t.Leaves {
		all = append(all, missing(t.Leaves[i].Cables))
	}
	for i := range t.Mids {
		all = append(all, missing(t.Mids[i].Cables))
	}
	return fmt.Sprint("hosts, and cables missing at each switch: ", all)
}

// seen accepts the fabric as forsd shows it if it is the one that should be.
func (s *site) seen() (func(*api.Topology) error, error) {
	now, err := s.world.now()
	if err != nil {
		return nil, err
	}
	want := picture(describe.Topology(now, time.Time{}))
	return func(t *api.Topology) error {
		if got := picture(t); got != want {
			return fmt.Errorf("forsd shows %s, and should show %s", got, want)
		}
		return nil
	}, nil
}

// rest waits until forsd is at rest on the fabric as it is, and judges the site.
func (s *site) rest(ctx context.Context) (*api.Status, error) {
	seen, err := s.seen()
	if err != nil {
		return nil, err
	}
	if _, err := s.Leader.Settled(ctx, seen); err != nil {
		return nil, err
	}
	if err := s.Leader.Until(ctx, func() error { return s.decided(ctx) }); err != nil {
		return nil, err
	}
	s.still = time.Now()
	for { // a better plan, with tables of its own, may come during a judgement
		before, err := s.Leader.Settled(ctx, seen)
		if err != nil {
			return nil, err
		}
		_, broken := command.UnlessStopped(ctx, func() (bool, error) {
			f, t, err := s.Leader.Judged(ctx, nil)
			if err == nil && s.o.Judged != nil {
				err = s.o.Judged(ctx, s.First.Judge, f, t)
			}
			return err == nil, err
		})
		if broken == nil {
			return before, nil
		}
		if after, err := s.Leader.Settled(ctx, seen); err != nil || after.Epoch == before.Epoch {
			return nil, errors.Join(broken, err)
		}
	}
}

// decided checks that exactly the parts that were ordered out are drained and may be pulled, and
// that no cable is held back for a while.
func (s *site) decided(ctx context.Context) error {
	all, err := s.Leader.Client.Drains(ctx)
	if err != nil {
		return err
	}
	if len(all) != len(s.world.drained) {
		return fmt.Errorf("%d parts are drained, and %d should be", len(all), len(s.world.drained))
	}
	for _, d := range all {
		if d.State != "safe" {
			return fmt.Errorf("%s is %s: %v", d.Name, d.State, d.Uses)
		}
	}
	st, err := s.Leader.Client.Status(ctx)
	if err == nil && e2e.HasWarning(st, controller.CableHeld) {
		err = errors.New("cables are still held back")
	}
	return err
}

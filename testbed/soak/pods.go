package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// podSite is a site of three levels: its cables between switches are pulled, put back,
// drained and given back, jobs come and go, and forsd and OpenSM are killed. The
// independent judge checks the site after each event.
type podSite struct {
	*e2e.Site
	fabric  *topology.Fabric
	base    *topology.PodBaseline
	guids   map[string]ib.GUID // [name of a switch]
	cables  []ibsim.Port
	dead    []ibsim.Port
	drained []string
	jobs    int
	lids    int
}

// runPods carries out events on the k-ary tree of three levels.
func runPods(ctx context.Context, o options, k int) (f *figures, err error) {
	dir, err := os.MkdirTemp("", "forsd-soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.Forsd == "" {
		if o.Forsd, err = e2e.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	spec := fabgen.KAry(k)
	spec.LMC = uint8(o.Seed % 3)
	s := &podSite{fabric: fabgen.GenerateTree(spec), guids: map[string]ib.GUID{}, lids: 1 << spec.LMC}
	if s.base, err = topology.NewPodBaseline(s.fabric); err != nil {
		return nil, err
	}
	s.Site, err = e2e.New(ctx, e2e.Options{Fabric: fabgen.GenerateTree(spec), LMC: spec.LMC, Forsd: o.Forsd, Config: settings(500 * time.Millisecond), Plugin: o.Plugin, Deadline: 10 * time.Second, Reports: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Judge.Everyone = true
	for i := range s.fabric.Nodes {
		s.guids[s.fabric.Nodes[i].Name] = s.fabric.Nodes[i].GUID
		for _, p := range s.fabric.Trunks(int32(i)) {
			if n := &s.fabric.Nodes[i]; n.Kind == topology.Switch && n.GUID < s.fabric.Nodes[n.Ports[p].Peer].GUID {
				s.cables = append(s.cables, ibsim.Port{Node: n.Name, Port: int(p)})
			}
		}
	}
	log, err := os.Create(o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	fmt.Fprintln(log, o.head())
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	if err := s.rest(ctx); err != nil {
		return nil, fmt.Errorf("at the start: %w", err)
	}
	w, base, rng := newWatch(), newWatch(), rand.New(rand.NewPCG(o.Seed, 19))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go w.follow(watching, s.Client)
	go base.followBase(watching, s.Client)
	f = &figures{options: o, kinds: map[string]int{}, began: time.Now()}
	defer func() { f.print(log, "# ") }()
	for n := range o.Events {
		began := time.Now()
		e, err := s.event(ctx, rng)
		if err == nil {
			err = s.rest(ctx)
		}
		took, plans, broken := w.since(began)
		_, _, brokenBase := base.since(began)
		if err = errors.Join(err, broken, brokenBase); err != nil {
			return f, fmt.Errorf("event %d, %s: %w; the log is %s, and those of the programs are in %s", n+1, e, err, o.Log, keepLogs(s.Site))
		}
		fmt.Fprintf(log, "%s # %v, %d plans\n", e, time.Since(began).Round(time.Millisecond), plans)
		f.add(e, took, plans)
	}
	return f, nil
}

// event draws an event and carries it out.
func (s *podSite) event(ctx context.Context, rng *rand.Rand) (e event, err error) {
	name := func(p ibsim.Port) string { return fmt.Sprintf("%s/%d", p.Node, p.Port) }
	for e.Change == "" {
		c := s.cables[rng.IntN(len(s.cables))]
		switch rng.IntN(10) {
		case 0, 1, 2, 3:
			if !slices.Contains(s.dead, c) && s.joined(append(slices.Clone(s.dead), c), s.drained) {
				e = event{Change: "pull", Where: []string{name(c)}}
				s.dead = append(s.dead, c)
			}
		case 4, 5, 6:
			if n := len(s.dead); n > 0 {
				c = s.dead[rng.IntN(n)]
				e = event{Change: "plug", Where: []string{name(c)}}
				s.dead = slices.DeleteFunc(s.dead, func(p ibsim.Port) bool { return p == c })
			}
		case 7:
			if len(s.drained) < 3 && !slices.Contains(s.drained, name(c)) && s.joined(s.dead, append(slices.Clone(s.drained), name(c))) {
				e = event{Change: "drain", Where: []string{name(c)}}
				s.drained = append(s.drained, name(c))
			}
		case 8:
			if n := len(s.drained); n > 0 {
				e = event{Change: "undrain", Where: []string{s.drained[rng.IntN(n)]}}
				s.drained = slices.DeleteFunc(s.drained, func(d string) bool { return d == e.Where[0] })
			}
		case 9:
			s.jobs++
			e = event{Change: "lease", Where: []string{fmt.Sprintf("job%d", s.jobs), "20s"}}
		}
	}
	if n := rng.IntN(20); n < 5 {
		e.With, e.After = "kill-forsd", time.Duration(rng.IntN(300))*time.Millisecond
	} else if n == 5 {
		e.With, e.After = "kill-opensm", time.Duration(rng.IntN(300))*time.Millisecond
	}
	if err := s.carry(ctx, e); err != nil {
		return e, err
	}
	time.Sleep(e.After)
	switch e.With {
	case "kill-forsd":
		return e, errors.Join(s.KillForsd(ctx), s.StartForsd())
	case "kill-opensm":
		s.SM.Kill()
		return e, s.SM.Restart(ctx)
	}
	return e, nil
}

// carry makes an event happen.
func (s *podSite) carry(ctx context.Context, e event) error {
	ports := func() []ibsim.Port {
		p, _ := parsePlace(e.Where[0])
		return []ibsim.Port{{Node: p.Node, Port: p.Port}}
	}
	switch e.Change {
	case "pull":
		return s.Sim.UnlinkAll(ctx, ports())
	case "plug":
		return s.Sim.RelinkAll(ctx, ports())
	case "drain":
		return s.Until(ctx, func() error {
			_, err := s.Client.Drain(ctx, api.DrainRequest{Parts: e.Where, Reason: "soak"})
			return err
		})
	case "undrain":
		return s.Until(ctx, func() error {
			_, err := s.Client.Undrain(ctx, e.Where...)
			return err
		})
	}
	return s.Until(ctx, func() error {
		q := api.JobRequest{Name: e.Where[0], LeaseSeconds: 20}
		for i := range s.fabric.Nodes {
			if n := &s.fabric.Nodes[i]; n.Kind == topology.Adapter && n.Ports[1].GUID%4 == 1 {
				q.Hosts = append(q.Hosts, n.Name)
			}
		}
		_, err := s.Client.CreateJob(ctx, q)
		return err
	})
}

// joined reports whether plans leave out no pair without some cables.
func (s *podSite) joined(dead []ibsim.Port, drained []string) bool {
	f := s.fabric.Clone()
	for _, p := range dead {
		drained = append(slices.Clone(drained), fmt.Sprintf("%s/%d", p.Node, p.Port))
	}
	for _, part := range drained {
		if _, err := f.Fail(part); err != nil {
			continue // it is dead and drained
		}
	}
	tree, err := topology.FitPods(f, s.base, nil)
	if err != nil {
		return false
	}
	none := 0.0
	return podplan.Settings{MaxUnreachable: &none}.MayPlan(tree) == nil
}

// seen accepts the fabric as forsd shows it if the expected number of cables is missing.
func (s *podSite) seen(t *api.Topology) error {
	missing := 0
	for _, l := range t.Leaves {
		missing += strings.Count(strings.Join(l.Cables, " "), "missing")
	}
	for _, m := range t.Mids {
		missing += strings.Count(strings.Join(m.Cables, " "), "missing")
	}
	if want := s.missing(); missing != want {
		return fmt.Errorf("%d cables are missing, and %d should be", missing, want)
	}
	return nil
}

// missing is the number of cables between switches that must not be seen: dead ones, and those
// of switches that only dead ones join to the hosts.
func (s *podSite) missing() int {
	f := s.fabric.Clone()
	for _, p := range s.dead {
		f.Disconnect(topology.PortRef{Node: f.Find(s.guids[p.Node]), Port: uint8(p.Port)})
	}
	queue := []int32{f.Find(s.base.Leaves[0].GUID)}
	seen := map[int32]bool{queue[0]: true}
	ends := 0
	for ; len(queue) > 0; queue = queue[1:] {
		for _, p := range f.Trunks(queue[0]) {
			ends++
			if peer := f.Nodes[queue[0]].Ports[p].Peer; !seen[peer] {
				seen[peer] = true
				queue = append(queue, peer)
			}
		}
	}
	return len(s.cables) - ends/2
}

// rest waits until forsd is at rest on the fabric as it is, and judges the site.
func (s *podSite) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took longer than %v", patience))
	defer cancel()
	if _, err := s.Settled(ctx, s.seen); err != nil {
		return err
	}
	err := s.Until(ctx, func() error {
		drains, err := s.Client.Drains(ctx)
		if err == nil && len(drains) != len(s.drained) {
			err = fmt.Errorf("%d parts are drained, and %d should be", len(drains), len(s.drained))
		}
		for _, d := range drains {
			if d.State != "safe" {
				err = fmt.Errorf("%s is %s: %v", d.Name, d.State, d.Uses)
			}
		}
		if st, err2 := s.Client.Status(ctx); err == nil && err2 == nil && e2e.HasWarning(st, controller.CableHeld) {
			err = errors.New("cables are still held back")
		}
		return err
	})
	for err == nil { // a better plan, with tables of its own, may come during a judgement
		var before, after *api.Status
		if before, err = s.Settled(ctx, s.seen); err != nil {
			return err
		}
		f, t, broken := s.Judged(ctx, nil)
		if broken == nil {
			return s.Site.Judge.Ibdmchk(ctx, f, t, s.jobs%s.lids)
		}
		if after, err = s.Settled(ctx, s.seen); err != nil || after.Epoch == before.Epoch {
			return errors.Join(broken, err)
		}
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/rehearsal"
)

// patience is how long anything may take to come.
const patience = 2 * time.Minute

// site is one site, or two with a manager each, and the world that they live in.
type site struct {
	*world
	rehearsal.Managers
	lids     int // of each host
	judged   int // how often the site was judged: ibdmchk is given other LIDs each time
	ahead    int // seconds by which the clocks of both forsd have been stepped
	acted    time.Time
	leases   map[string]lease // of jobs that were made, by name
	counted  map[place]*count // of cables that have counted errors
	unseen   bool             // the event leaves the fabric as forsd shows it: only a sweep shows that it has been seen
	outdated bool             // OpenSM may have read widths before they changed, and keeps them; forsd asks the switches
	tail     map[string]int64 // how long the logs of the programs were before the event
}

// carry makes an event happen, waits until forsd has done its work for it, and judges
// the result.
func (s *site) carry(ctx context.Context, e event) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took longer than %v", patience))
	defer cancel()
	was := s.clone()
	ports, err := s.take(e)
	if err != nil {
		return err
	}
	act := func() error {
		s.acted = time.Now()
		return s.change(ctx, e, was, ports)
	}
	s.outdated = e.Change == "slow" || e.Change == "fast"
	s.unseen = e.moves() && reflect.DeepEqual(was.picture(), s.picture())
	if e.With == "" {
		err = act()
	} else {
		err = s.disturb(ctx, e, act)
	}
	if err != nil {
		return err
	}
	return s.rest(ctx)
}

// change changes the fabric.
func (s *site) change(ctx context.Context, e event, was *world, ports []place) error {
	sim := s.First.Sim
	var all []ibsim.Port
	for _, p := range ports {
		all = append(all, ibsim.Port{Node: p.Node, Port: p.Port})
	}
	switch e.Change {
	case "":
		return nil
	case "pull", "spine-off", "leaf-off", "host-pull":
		return sim.UnlinkAll(ctx, all)
	case "plug", "spine-on", "leaf-on", "host-plug":
		if len(all) == 0 {
			return nil
		}
		return sim.RelinkAll(ctx, all)
	case "miswire":
		return s.swap(ctx, s.cross, true)
	case "rewire":
		return s.swap(ctx, was.cross, false)
	case "drain", "drain-for", "undrain", "release", "lease":
		return s.order(ctx, e)
	}
	for _, text := range e.Where {
		p, err := parsePlace(text)
		if err != nil {
			return err
		}
		switch e.Change {
		case "flap":
			err = errors.Join(s.bounce(ctx, p), s.bounce(ctx, p))
		case "slow":
			err = s.train(ctx, p, "1X")
		case "fast":
			err = s.train(ctx, p, "1X or 4X")
		case "errors":
			s.counted[p] = &count{n: s.counted[p].value()}
			err = s.count(ctx, p, s.counted[p])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bounce pulls a cable and puts it back.
func (s *site) bounce(ctx context.Context, p place) error {
	err := s.First.Sim.Unlink(ctx, p.Node, p.Port)
	time.Sleep(60 * time.Millisecond)
	err = errors.Join(err, s.First.Sim.Relink(ctx, p.Node, p.Port))
	time.Sleep(60 * time.Millisecond)
	return err
}

// train sets the widths by which both ends of a cable may come up, and brings it up. OpenSM is
// told to leave them alone (force_link_width 0), but whenever it sets a port it writes the
// value that it read there last: if it read that before, train repeats everything.
func (s *site) train(ctx context.Context, p place, widths string) error {
	leaf, lane, err := s.cable(p)
	if err != nil {
		return err
	}
	enabled := map[string]string{"1X": "1", "1X or 4X": "3"}[widths]
	route := s.route(leaf)
	ends := [][2]string{{route, strconv.Itoa(p.Port)}, {fmt.Sprintf("%s,%d", route, p.Port), strconv.Itoa(s.far(leaf, lane).Port)}}
	ask := func(end [2]string, what ...string) ([]byte, error) {
		return s.First.Sim.Run(ctx, s.manager(), "ibportstate", append([]string{"-t", "1000", "-D", end[0], end[1]}, what...)...)
	}
	for done := false; !done; {
		for _, end := range ends {
			if _, err := ask(end, "width", enabled); err != nil {
				return err
			}
		}
		if err := s.bounce(ctx, p); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond) // a sweep that had begun before may set ports
		done = true
		for _, end := range ends {
			out, err := ask(end, "query")
			if err != nil {
				return err
			}
			now := enabledWidths.FindSubmatch(out)
			if now == nil {
				return fmt.Errorf("ibportstate shows no widths of %s/%d", p.Node, p.Port)
			}
			done = done && string(now[1]) == widths
		}
	}
	return nil
}

var enabledWidths = regexp.MustCompile(`Switch PortInfo:(?s:.*?)LinkWidthEnabled:\.*([^\n]+)\n`)

// route is the directed route from the first manager to a leaf.
func (s *site) route(leaf int) string {
	const own = "0,1"
	at := s.keep[0]
	if leaf == at {
		return own
	}
	for k := range s.tree.Lanes {
		if s.plugged(at, k) && s.plugged(leaf, k) && s.cables[at][k] != miswired && s.cables[leaf][k] != miswired {
			return fmt.Sprintf("%s,%d,%d", own, s.port(at, k).Port, s.far(leaf, k).Port)
		}
	}
	return own
}

// manager is the host of the first manager.
func (s *site) manager() string {
	for h := range s.hosts {
		if s.tree.Hosts[h].Leaf == s.keep[0] {
			return s.tree.Hosts[h].Name
		}
	}
	return ""
}

// swap plugs two cables crosswise, or each into its own ports again.
func (s *site) swap(ctx context.Context, at []place, crosswise bool) error {
	sim := s.First.Sim
	var far [2]place
	for i, p := range at {
		leaf, lane, err := s.cable(p)
		if err != nil {
			return err
		}
		if err := sim.Unlink(ctx, p.Node, p.Port); err != nil {
			return err
		}
		far[i] = s.far(leaf, lane)
	}
	if crosswise {
		far[0], far[1] = far[1], far[0]
	}
	for i, p := range at {
		if err := sim.Link(ctx, p.Node, p.Port, far[i].Node, far[i].Port); err != nil {
			return err
		}
	}
	return nil
}

// disturb changes the fabric while one of the programs that must respond is disturbed.
func (s *site) disturb(ctx context.Context, e event, act func() error) error {
	switch e.With {
	case "clock":
		step := func() error {
			s.ahead += e.By
			return s.setClocks(e.By == 0)
		}
		return rehearsal.Around(ctx, e.After, act, step, func() error {
			if e.By == 0 {
				time.Sleep(time.Second)
			}
			return s.setClocks(false)
		})
	case "disk-full":
		return s.fullDisk(ctx, act)
	}
	return s.Disturb(ctx, e.With, e.After, act)
}

// setClocks sets the clocks of both forsd, or stops them.
func (s *site) setClocks(stand bool) error {
	err := s.First.SetClock(s.ahead, stand)
	if s.Second != nil {
		err = errors.Join(err, s.Second.SetClock(s.ahead, stand))
	}
	return err
}

// fullDisk makes the change while the disk of the state directory is full. The plan that answers
// it must still hold; then the disk is freed, and everything is stored.
func (s *site) fullDisk(ctx context.Context, act func() error) error {
	filler := filepath.Join(s.Leader.StateDir(), "filler")
	if err := fill(filler); err != nil {
		return err
	}
	if err := errors.Join(act(), s.rest(ctx), os.Remove(filler)); err != nil {
		return err
	}
	return s.Leader.Until(ctx, func() error {
		st, err := s.Leader.Client.Status(ctx)
		if err == nil && e2e.HasWarning(st, "state-not-durable") {
			err = fmt.Errorf("the disk is free, and the warnings are %v", st.Warnings)
		}
		return err
	})
}

// fill fills a file system up.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, n := range []int{1 << 20, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	return nil
}

// begin brings up the site, and takes the world from the fabric as it is then.
func (s *site) begin(ctx context.Context, keep []int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the site did not come up"))
	defer cancel()
	if err := s.Bring(ctx); err != nil {
		return err
	}
	sight, err := s.First.Check(ctx)
	if err != nil {
		return err
	}
	s.world = newWorld(sight.Tree, keep...)
	return s.job(ctx, "steady", 24*time.Hour)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
)

// The fabric.
const leaves, spines = 18, 20

// cable is the cable of the nth failure, one of 180. Lane k is at port spines+1+k of every leaf.
func cable(n int) (leaf, lane int) { return (5*n + 3) % leaves, (7*n + 4) % spines }

// rest is how long OpenSM must have been quiet for a change to be over; forsd never takes
// longer to go on to its next step. If only the time to the plan is measured, shortRest is
// enough: as long as forsd takes to store a change in its history.
const (
	rest      = 400 * time.Millisecond
	shortRest = 150 * time.Millisecond
)

// The names of the ways.
const (
	byMinHop = "min-hop"
	byFiles  = "files"
	byPlugin = "plugin"
	bare     = "plugin, no history"
)

// way is a way to route the fabric, at work on one of its own.
type way struct {
	name         string
	site         *e2e.Site
	tap          *tap
	rest         time.Duration
	stopped      bool       // forsd is, while cables are pulled and put back
	pulled, back []timeline // by failure

	mu     sync.Mutex
	epochs []time.Time // when new plans came to a subscriber of forsd's
}

// timeline has the times of the steps after a change, 0 for never.
type timeline struct {
	trap       time.Duration // OpenSM received it
	discovered time.Duration // OpenSM has seen the whole fabric
	engine     time.Duration // OpenSM asked its routing engine
	published  time.Duration // forsd's new plan came to a subscriber
	tables     time.Duration // the last block of a table was sent
	up         time.Duration // the sweep that sent it was over
	blocks     int           // of tables, sent
}

// kind is a way before it is started.
type kind struct {
	name    string
	options e2e.Options
	rest    time.Duration
}

// kinds are the ways to compare.
func kinds(forsd, plugin string, history bool) []kind {
	by := e2e.Options{Forsd: forsd, Plugin: plugin}
	if history {
		return []kind{{byPlugin, by, shortRest}, {bare, by, shortRest}}
	}
	return []kind{{byMinHop, e2e.Options{Engine: "minhop"}, rest}, {byFiles, e2e.Options{Forsd: forsd, Traps: "off"}, rest}, {byPlugin, by, rest}}
}

// start brings up the fabric in every way.
func start(ctx context.Context, dir, library string, kinds []kind) (ways []*way, err error) {
	fabric := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves})
	for _, k := range kinds {
		w := &way{name: k.name, rest: k.rest}
		ways = append(ways, w)
		o := k.options
		o.Fabric, o.LMC, o.Config = fabric, 5, "damping: {flaps: 1000}\n"
		o.Conf = map[string]string{"sweep_interval": "600", "honor_guid2lid_file": "TRUE"}
		if w.tap, err = newTap(library, filepath.Join(dir, fmt.Sprintf("%d.tap", len(ways)))); err != nil {
			return ways, err
		}
		o.Manager = w.tap.watch
		if err := w.start(ctx, o); err != nil {
			return ways, fmt.Errorf("start %s: %w", w.name, err)
		}
	}
	last := ways[len(ways)-1]
	if last.name != byPlugin {
		return ways, nil
	}
	return append(ways, &way{name: last.name + ", forsd stopped", site: last.site, tap: last.tap, rest: last.rest, stopped: true}), nil
}

// start brings the site up and waits until it is at rest.
func (w *way) start(ctx context.Context, o e2e.Options) (err error) {
	if w.site, err = e2e.New(ctx, o); err != nil {
		return err
	}
	if w.name == bare {
		if err := w.site.WithoutHistory(); err != nil {
			return err
		}
	}
	if o.Forsd == "" {
		if err := w.site.StartOpenSM(ctx); err != nil {
			return err
		}
		return w.tap.quiet(ctx, 0, w.rest)
	}
	if err := w.site.Start(ctx); err != nil {
		return err
	}
	go w.subscribe(ctx)
	return w.settled(ctx, 0, nil)
}

// subscribe notes when new plans come.
func (w *way) subscribe(ctx context.Context) {
	for e, err := range w.site.Client.Watch(ctx, "") {
		if err == nil && e.Kind == api.KindEpoch {
			w.mu.Lock()
			w.epochs = append(w.epochs, time.Now())
			w.mu.Unlock()
		}
	}
}

// settled waits until a change is over. It asks forsd nothing before OpenSM is quiet,
// so as not to affect the times.
func (w *way) settled(ctx context.Context, n int, seen func(*api.Topology) error) error {
	if err := w.tap.quiet(ctx, n, w.rest); err != nil {
		return err
	}
	if w.site.Forsd == nil {
		return nil
	}
	_, err := w.site.Settled(ctx, seen)
	return err
}

// fail pulls the cable of the nth failure, and puts it back.
func (w *way) fail(ctx context.Context, n int) error {
	leaf, lane := cable(n)
	do := func(act func(context.Context, string, int) error, state string) (t timeline, err error) {
		if w.stopped {
			if err := syscall.Kill(w.site.Forsd.PID(), syscall.SIGSTOP); err != nil {
				return t, err
			}
		}
		from, began := w.tap.length(), time.Now()
		if err = act(ctx, fmt.Sprintf("Leaf%03d", leaf), spines+1+lane); err == nil {
			err = w.tap.quiet(ctx, from, w.rest)
		}
		if w.stopped {
			t = w.timeline(began, from)
			err = errors.Join(err, syscall.Kill(w.site.Forsd.PID(), syscall.SIGCONT))
		}
		if err == nil {
			err = w.settled(ctx, from, e2e.Cable(leaf, lane, state))
		}
		if !w.stopped {
			t = w.timeline(began, from) // a plan may have come after OpenSM's last datagram
		}
		return t, err
	}
	pulled, err := do(w.site.Sim.Unlink, "missing")
	if err != nil {
		return err
	}
	back, err := do(w.site.Sim.Relink, "full")
	w.pulled, w.back = append(w.pulled, pulled), append(w.back, back)
	return err
}

// timeline is the sequence of steps since a change.
func (w *way) timeline(began time.Time, from int) (t timeline) {
	first := func(d *time.Duration, at time.Time) {
		if *d == 0 && t.trap != 0 {
			*d = at.Sub(began)
		}
	}
	for _, r := range w.tap.since(from) {
		since := r.at.Sub(began)
		switch r.kind {
		case trap:
			if t.trap == 0 {
				t.trap = since
			}
		case discovered:
			first(&t.discovered, r.at)
		case engine:
			first(&t.engine, r.at)
		case block:
			t.blocks++
			t.tables, t.up = since, 0
		case up:
			first(&t.up, r.at)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.epochs {
		if at.After(began) {
			first(&t.published, at)
		}
	}
	return t
}

// closeAll ends everything.
func closeAll(ways []*way) (err error) {
	for _, w := range ways {
		if w.stopped {
			continue // it is another way's site
		}
		if w.site != nil {
			err = errors.Join(err, w.site.Close())
		}
		if w.tap != nil {
			err = errors.Join(err, w.tap.close(), os.Remove(w.tap.path))
		}
	}
	return err
}

// Package driver carries a schedule of parallel circuit switches out on real ones:
// what a switch must be able to do, which ports the racks are on, and when each
// configuration is due. It moves circuits and no data: racks that send must know
// the schedule as well.
package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/optical/ocs"
)

// Pair is a cross-connect: light that enters at one port leaves at the other.
type Pair struct {
	Ingress int `json:"ingress"`
	Egress  int `json:"egress"`
}

// Switch is a circuit switch.
type Switch interface {
	// Connected lists the cross-connects in force, in any order.
	Connected(context.Context) ([]Pair, error)
	// Connect makes these the only cross-connects, and returns when they are in force.
	Connect(context.Context, []Pair) error
}

// Line is a switch of a schedule, with the ports that rack i sends into, Ingress[i],
// and receives from, Egress[i].
type Line struct {
	Name    string
	Switch  Switch
	Ingress []int
	Egress  []int
}

// pairs are the cross-connects of a permutation. A rack needs none to itself.
func (l *Line) pairs(permutation []int32) []Pair {
	list := make([]Pair, 0, len(permutation))
	for i, j := range permutation {
		if int(j) != i {
			list = append(list, Pair{l.Ingress[i], l.Egress[j]})
		}
	}
	return list
}

// Event is a configuration of a switch that is due, or was made.
type Event struct {
	Switch  string
	Number  int           // of the configuration, from 0
	Due     time.Duration // when the circuits are to stand, after the start
	For     time.Duration // how long
	Pairs   []Pair
	Took    time.Duration // to change and to read back, 0 in a dry run
	Overdue time.Duration // by how much they stood too late
}

// Run carries a schedule out. unit is what 1 of the schedule's time takes. The
// cross-connects of other ports stay as they are; where one of them holds a port
// that the schedule needs, nothing is changed. Each change begins a δ before its
// circuits are due, is read back, and is told in an Event, from one goroutine a
// switch. The first failure ends all. The circuits of the last configurations
// stay.
func Run(ctx context.Context, s *ocs.Schedule, lines []Line, unit time.Duration, tell func(Event)) error {
	if err := check(s, lines, unit); err != nil {
		return err
	}
	others := make([][]Pair, len(lines))
	for h := range lines {
		var err error
		if others[h], err = lines[h].others(ctx); err != nil {
			return fmt.Errorf("switch %s: %w", lines[h].Name, err)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	start := time.Now()
	var all sync.WaitGroup
	for h := range lines {
		all.Go(func() {
			if err := lines[h].run(ctx, s, h, start, unit, others[h], tell); err != nil {
				stop(fmt.Errorf("switch %s: %w", lines[h].Name, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// DryRun tells the events of a schedule in the order of time, and changes nothing.
func DryRun(s *ocs.Schedule, lines []Line, unit time.Duration) ([]Event, error) {
	if err := check(s, lines, unit); err != nil {
		return nil, err
	}
	var events []Event
	for h := range lines {
		for c := range s.Switches[h].Configs {
			events = append(events, lines[h].event(s, h, c, unit))
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.Due - b.Due) })
	return events, nil
}

// check tells what keeps a schedule from being carried out on these switches.
func check(s *ocs.Schedule, lines []Line, unit time.Duration) error {
	if unit <= 0 {
		return fmt.Errorf("a unit of %v: say what 1 of the schedule's time takes, such as 1s", unit)
	}
	if len(lines) != len(s.Switches) {
		return fmt.Errorf("the schedule has %d switches, %d are there", len(s.Switches), len(lines))
	}
	if t := s.Makespan() * float64(unit); t > float64(365*24*time.Hour) {
		return fmt.Errorf("a makespan of %v with a unit of %v is longer than a year: choose a smaller unit", s.Makespan(), unit)
	}
	for _, l := range lines {
		for _, x := range []struct {
			what  string
			ports []int
		}{{"ingress", l.Ingress}, {"egress", l.Egress}} {
			if len(x.ports) != s.Racks {
				return fmt.Errorf("switch %s has %d %s ports, the schedule has %d racks", l.Name, len(x.ports), x.what, s.Racks)
			}
			sorted := slices.Sorted(slices.Values(x.ports))
			if len(slices.Compact(sorted)) != s.Racks {
				return fmt.Errorf("switch %s: two racks have the same %s port", l.Name, x.what)
			}
		}
	}
	return nil
}

// others are the cross-connects in force that are not of the racks' ingress ports.
func (l *Line) others(ctx context.Context) ([]Pair, error) {
	connected, err := l.Switch.Connected(ctx)
	if err != nil {
		return nil, err
	}
	var list []Pair
	for _, p := range connected {
		if slices.Contains(l.Ingress, p.Ingress) {
			continue
		}
		if slices.Contains(l.Egress, p.Egress) {
			return nil, fmt.Errorf("port %d, which a rack receives from, is connected to port %d, which no rack sends into: disconnect it first", p.Egress, p.Ingress)
		}
		list = append(list, p)
	}
	return list, nil
}

// event is the plan of configuration c of switch h.
func (l *Line) event(s *ocs.Schedule, h, c int, unit time.Duration) Event {
	x := s.Switches[h].Configs[c]
	return Event{Switch: l.Name, Number: c, Due: scale(x.Start, unit), For: scale(x.Weight, unit), Pairs: l.pairs(x.Permutation)}
}

func scale(t float64, unit time.Duration) time.Duration { return time.Duration(t * float64(unit)) }

// run carries out what switch h has to do.
func (l *Line) run(ctx context.Context, s *ocs.Schedule, h int, start time.Time, unit time.Duration, others []Pair, tell func(Event)) error {
	for c := range s.Switches[h].Configs {
		e := l.event(s, h, c, unit)
		if err := wait(ctx, start.Add(e.Due-scale(s.Delta, unit))); err != nil {
			return err
		}
		began := time.Now()
		if err := l.change(ctx, slices.Concat(others, e.Pairs)); err != nil {
			return fmt.Errorf("configuration %d: %w", c, err)
		}
		now := time.Now()
		e.Took, e.Overdue = now.Sub(began), max(0, now.Sub(start)-e.Due)
		tell(e)
	}
	return nil
}

// change makes cross-connects and reads them back.
func (l *Line) change(ctx context.Context, want []Pair) error {
	order := func(a, b Pair) int { return a.Ingress - b.Ingress }
	slices.SortFunc(want, order)
	if err := l.Switch.Connect(ctx, want); err != nil {
		return err
	}
	got, err := l.Switch.Connected(ctx)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	slices.SortFunc(got, order)
	if !slices.Equal(want, got) {
		return errors.New("read back: the cross-connects are not those that were asked for")
	}
	return nil
}

// wait waits until a time or the end of the context.
func wait(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

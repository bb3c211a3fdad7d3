// Package driver executes a schedule of parallel circuit switches on real ones: it
// defines the interface of a switch and the ports of the racks, and changes circuits
// when each configuration is due. It moves no data: racks that send must know the
// schedule as well.
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
	// Connected lists the current cross-connects, in any order.
	Connected(context.Context) ([]Pair, error)
	// Change removes the cross-connects of some ingress ports and makes pairs, which may
	// replace others on the same ports, and returns when they are in effect. All other
	// cross-connects stay, and their light is not interrupted.
	Change(ctx context.Context, remove []int, pairs []Pair) error
}

// Line is a switch of a schedule, with the ports that rack i sends into, Ingress[i],
// and receives from, Egress[i].
type Line struct {
	Name    string
	Switch  Switch
	Ingress []int
	Egress  []int
}

// pairs returns the cross-connects of a permutation on switch h. A rack needs none to
// itself, and dead ports have none.
func (l *Line) pairs(s *ocs.Schedule, h int, permutation []int32) []Pair {
	list := make([]Pair, 0, len(permutation))
	for i, j := range permutation {
		if int(j) != i && s.Joins(h, i, int(j)) {
			list = append(list, Pair{l.Ingress[i], l.Egress[j]})
		}
	}
	return list
}

// Event is a configuration of a switch that is due, or was made.
type Event struct {
	Switch  string
	Number  int           // of the configuration, from 0
	Due     time.Duration // when the circuits are due, after the start
	For     time.Duration // how long they stand
	Pairs   []Pair
	Kept    int           // pairs that stayed through the change
	Took    time.Duration // to change and to read back, 0 in a dry run
	Overdue time.Duration // delay of the new pairs
}

// Missed is the time for which circuits of the event should have stood but did not, summed
// over its pairs.
func (e *Event) Missed() time.Duration {
	return time.Duration(len(e.Pairs)-e.Kept) * min(e.Overdue, e.For)
}

// Run executes a schedule from the time start on, or, if start is zero, as soon as all
// switches have answered. unit is the duration of 1 in the schedule's time. Each change
// begins δ before its circuits are due, after a check of the current cross-connects: Run
// does not touch circuits that stay or other ports, and changes nothing if a port of a rack
// is connected to another port, or if a circuit of the schedule is not as Run made it. Run
// reads each change back and passes it to tell as an Event, from one goroutine per switch.
// The first failure stops all switches. The circuits of the last configurations stay. Run
// does not contact switches without configurations, such as dead ones.
func Run(ctx context.Context, s *ocs.Schedule, lines []Line, unit time.Duration, start time.Time, tell func(Event)) error {
	if err := check(s, lines, unit); err != nil {
		return err
	}
	for h := range lines {
		if len(s.Switches[h].Configs) == 0 {
			continue
		}
		if _, err := lines[h].own(ctx); err != nil {
			return fmt.Errorf("switch %s: %w", lines[h].Name, err)
		}
	}
	if start.IsZero() {
		start = time.Now().Add(look)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for h := range lines {
		all.Go(func() {
			if err := lines[h].run(ctx, s, h, start, unit, tell); err != nil {
				stop(fmt.Errorf("switch %s: %w", lines[h].Name, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// DryRun returns the events of a schedule in the order of time, and changes nothing.
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

// checkUnit returns an error if the unit or the makespan is out of range.
func checkUnit(s *ocs.Schedule, unit time.Duration) error {
	if unit <= 0 {
		return fmt.Errorf("a unit of %v: give the duration of 1 in the schedule's time, such as 1s", unit)
	}
	if t := s.Makespan() * float64(unit); t > float64(365*24*time.Hour) {
		return fmt.Errorf("a makespan of %v with a unit of %v is longer than a year: choose a smaller unit", s.Makespan(), unit)
	}
	return nil
}

// check returns an error if a schedule cannot be executed on these switches.
func check(s *ocs.Schedule, lines []Line, unit time.Duration) error {
	if err := checkUnit(s, unit); err != nil {
		return err
	}
	if len(lines) != len(s.Switches) {
		return fmt.Errorf("the schedule has %d switches, the site has %d", len(s.Switches), len(lines))
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

// own lists the racks' current circuits in the order of ingress ports. A circuit between a
// rack's port and any other is an error: another client made it.
func (l *Line) own(ctx context.Context) ([]Pair, error) {
	connected, err := l.Switch.Connected(ctx)
	if err != nil {
		return nil, err
	}
	var list []Pair
	for _, p := range connected {
		sends, receives := slices.Contains(l.Ingress, p.Ingress), slices.Contains(l.Egress, p.Egress)
		switch {
		case sends && receives:
			list = append(list, p)
		case sends:
			return nil, fmt.Errorf("port %d, which a rack sends into, is connected to port %d, which no rack receives from: disconnect it first", p.Ingress, p.Egress)
		case receives:
			return nil, fmt.Errorf("port %d, which a rack receives from, is connected to port %d, which no rack sends into: disconnect it first", p.Egress, p.Ingress)
		}
	}
	slices.SortFunc(list, byIngress)
	return list, nil
}

func byIngress(a, b Pair) int { return a.Ingress - b.Ingress }

// event returns configuration c of switch h as an event.
func (l *Line) event(s *ocs.Schedule, h, c int, unit time.Duration) Event {
	x := s.Switches[h].Configs[c]
	return Event{Switch: l.Name, Number: c, Due: scale(x.Start, unit), For: scale(x.Weight, unit), Pairs: l.pairs(s, h, x.Permutation)}
}

func scale(t float64, unit time.Duration) time.Duration { return time.Duration(t * float64(unit)) }

// Run checks the cross-connects look before each change. If it has waited longer than wake
// for a change, it also does so wake before it: the switch may have closed the session, and
// a new one takes time.
const (
	look = 50 * time.Millisecond
	wake = 2 * time.Second
)

// run executes the configurations of switch h.
func (l *Line) run(ctx context.Context, s *ocs.Schedule, h int, start time.Time, unit time.Duration, tell func(Event)) error {
	var made []Pair
	for c := range s.Switches[h].Configs {
		e := l.event(s, h, c, unit)
		begin := start.Add(e.Due - scale(s.Delta, unit))
		if time.Until(begin) > wake {
			if err := wait(ctx, begin.Add(-wake)); err != nil {
				return err
			}
			if _, err := l.own(ctx); err != nil {
				return fmt.Errorf("configuration %d: %w", c, err)
			}
		}
		if err := wait(ctx, begin.Add(-look)); err != nil {
			return err
		}
		have, err := l.own(ctx)
		if err == nil && c > 0 && !slices.Equal(have, made) {
			err = errors.New("the circuits are not as they were left: another client changes them")
		}
		if err == nil {
			err = wait(ctx, begin)
		}
		began := time.Now()
		if err == nil {
			made = slices.SortedFunc(slices.Values(e.Pairs), byIngress)
			e.Kept, err = l.change(ctx, have, made)
		}
		if err != nil {
			return fmt.Errorf("configuration %d: %w", c, err)
		}
		now := time.Now()
		e.Took, e.Overdue = now.Sub(began), max(0, now.Sub(start)-e.Due)
		tell(e)
	}
	return nil
}

// change replaces the circuits have by want, reads them back, and counts those that stayed.
func (l *Line) change(ctx context.Context, have, want []Pair) (kept int, err error) {
	remove, pairs := difference(have, want)
	kept = len(want) - len(pairs)
	if len(remove)+len(pairs) == 0 {
		return kept, nil
	}
	if err := l.Switch.Change(ctx, remove, pairs); err != nil {
		return 0, err
	}
	got, err := l.own(ctx)
	if err != nil {
		return 0, fmt.Errorf("read back: %w", err)
	}
	if !slices.Equal(want, got) {
		return 0, errors.New("read back: the cross-connects are not those requested")
	}
	return kept, nil
}

// difference returns the changes from the circuits have to want: ingress ports to
// disconnect, and pairs to make.
func difference(have, want []Pair) (remove []int, pairs []Pair) {
	for _, p := range have {
		if !slices.ContainsFunc(want, func(q Pair) bool { return q.Ingress == p.Ingress }) {
			remove = append(remove, p.Ingress)
		}
	}
	for _, p := range want {
		if !slices.Contains(have, p) {
			pairs = append(pairs, p)
		}
	}
	return remove, pairs
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

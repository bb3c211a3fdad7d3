package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/optical/ocs"
)

// fake is a switch with a delay to change, which may fail or report wrong circuits.
type fake struct {
	mu    sync.Mutex
	pairs []Pair
	takes time.Duration
	fails int // the change that fails, from 1, or 0
	lies  bool
	calls int

	answers time.Duration // delay of Connected
	ends    time.Duration // after which a session ends; 0 for never
	asked   time.Time
}

func (f *fake) Connected(context.Context) ([]Pair, error) {
	time.Sleep(f.answers)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends > 0 && time.Since(f.asked) > f.ends {
		time.Sleep(300 * time.Millisecond) // a new one
	}
	f.asked = time.Now()
	return slices.Clone(f.pairs), nil
}

func (f *fake) Change(_ context.Context, remove []int, pairs []Pair) error {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls == f.fails {
		return errors.New("a mirror is stuck")
	}
	if f.lies {
		return nil
	}
	for _, p := range pairs {
		remove = append(remove, p.Ingress)
	}
	f.pairs = slices.DeleteFunc(f.pairs, func(p Pair) bool { return slices.Contains(remove, p.Ingress) })
	f.pairs = append(f.pairs, pairs...)
	return nil
}

// twoSwitches is a schedule of three racks and two switches: the first changes at
// 0.1 and 1.2, the second at 0.1.
func twoSwitches() *ocs.Schedule {
	return &ocs.Schedule{Racks: 3, Delta: 0.1, Switches: []ocs.Switch{
		{Load: 1.7, Configs: []ocs.Config{{Permutation: []int32{1, 2, 0}, Start: 0.1, Weight: 1}, {Permutation: []int32{2, 1, 0}, Start: 1.2, Weight: 0.5}}},
		{Load: 2.1, Configs: []ocs.Config{{Permutation: []int32{2, 0, 1}, Start: 0.1, Weight: 2}}},
	}}
}

func lines(switches ...*fake) []Line {
	var list []Line
	for i, f := range switches {
		list = append(list, Line{Name: fmt.Sprint("s", i), Switch: f, Ingress: []int{1, 2, 3}, Egress: []int{11, 12, 13}})
	}
	return list
}

// TestRun executes a schedule by a fake clock: each change begins δ before its circuits
// are due, and a longer one is reported.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick, slow := &fake{takes: 50 * time.Millisecond, pairs: []Pair{{7, 17}}}, &fake{takes: 150 * time.Millisecond}
		start := time.Now()
		var mu sync.Mutex
		var got []string
		err := Run(t.Context(), twoSwitches(), lines(quick, slow), time.Second, start, func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%v: %s/%d due %v took %v overdue %v %v kept %d missed %v", time.Since(start), e.Switch, e.Number, e.Due, e.Took, e.Overdue, e.Pairs, e.Kept, e.Missed()))
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"50ms: s0/0 due 100ms took 50ms overdue 0s [{1 12} {2 13} {3 11}] kept 0 missed 0s",
			"150ms: s1/0 due 100ms took 150ms overdue 50ms [{1 13} {2 11} {3 12}] kept 0 missed 150ms",
			"1.15s: s0/1 due 1.2s took 50ms overdue 0s [{1 13} {3 11}] kept 1 missed 0s",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]Pair{{7, 17}, {3, 11}, {1, 13}}, quick.pairs); d != "" {
			t.Errorf("in the end (-want +got):\n%s", d)
		}
	})
}

// TestRunFails lets a switch fail, report wrong circuits or hold a needed port, or the
// caller give up: the others stop.
func TestRunFails(t *testing.T) {
	for _, c := range []struct {
		bad   *fake
		limit time.Duration
		want  string
		calls int // of the good switch
	}{
		{&fake{fails: 1, takes: 5 * time.Millisecond}, time.Hour, "switch s1: configuration 0: a mirror is stuck", 1},
		{&fake{lies: true, takes: 5 * time.Millisecond}, time.Hour, "switch s1: configuration 0: read back", 1},
		{&fake{pairs: []Pair{{9, 12}}}, time.Hour, "switch s1: port 12, which a rack receives from, is connected to port 9", 0},
		{&fake{pairs: []Pair{{2, 19}}}, time.Hour, "switch s1: port 2, which a rack sends into, is connected to port 19", 0},
		{&fake{}, time.Second, "deadline", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			good := &fake{takes: time.Millisecond}
			err := Run(ctx, twoSwitches(), lines(good, c.bad), time.Second, time.Now(), func(Event) {})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if good.calls != c.calls {
				t.Errorf("%s: the other switch was changed %d times, want %d", c.want, good.calls, c.calls)
			}
		})
	}
}

// TestOthersChange lets another client change circuits while a schedule runs: those of
// other ports stay; a change to a port or a circuit of the schedule ends it before its
// next change.
func TestOthersChange(t *testing.T) {
	for _, c := range []struct {
		does func(pairs []Pair) []Pair
		want string
		left []Pair
	}{
		{func(p []Pair) []Pair { return append(p, Pair{8, 18}) }, "", []Pair{{1, 13}, {3, 11}, {7, 17}, {8, 18}}},
		{func(p []Pair) []Pair { return slices.DeleteFunc(p, func(p Pair) bool { return p.Ingress == 7 }) }, "", []Pair{{1, 13}, {3, 11}}},
		{func(p []Pair) []Pair { return slices.Delete(p, 2, 3) }, "configuration 1: the circuits are not as they were left", []Pair{{1, 12}, {3, 11}, {7, 17}}},
		{func(p []Pair) []Pair { p[1].Egress = 14; return p }, "configuration 1: port 1, which a rack sends into, is connected to port 14", []Pair{{1, 14}, {2, 13}, {3, 11}, {7, 17}}},
		{func(p []Pair) []Pair { return append(p[:3], Pair{9, 11}) }, "configuration 1: port 11, which a rack receives from, is connected to port 9", []Pair{{1, 12}, {2, 13}, {7, 17}, {9, 11}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			sw := &fake{takes: time.Millisecond, pairs: []Pair{{7, 17}}}
			go func() {
				time.Sleep(500 * time.Millisecond)
				sw.mu.Lock()
				defer sw.mu.Unlock()
				sw.pairs = c.does(sw.pairs)
			}()
			err := Run(t.Context(), twoSwitches(), lines(sw, &fake{}), time.Second, time.Now(), func(Event) {})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			slices.SortFunc(sw.pairs, byIngress)
			if d := cmp.Diff(c.left, sw.pairs); d != "" {
				t.Errorf("in the end (-want +got):\n%s", d)
			}
		})
	}
}

// TestRunNow starts when the switches have answered, however long that takes, so that none
// is late; a switch without configurations is not contacted.
func TestRunNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := twoSwitches()
		s.Switches[1].Configs, s.DeadSwitches = nil, []int{1}
		slow := &fake{takes: 50 * time.Millisecond, answers: 40 * time.Millisecond}
		list := lines(slow, nil)
		list[1].Switch = nil
		var overdue []time.Duration
		if err := Run(t.Context(), s, list, time.Second, time.Time{}, func(e Event) { overdue = append(overdue, e.Overdue) }); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]time.Duration{0, 0}, overdue); d != "" {
			t.Errorf("overdue (-want +got):\n%s", d)
		}
	})
}

// TestRunWakes uses a switch that closes its sessions after a minute and is slow to open
// one: no change waits for that.
func TestRunWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := &fake{takes: 50 * time.Millisecond, ends: time.Minute}
		err := Run(t.Context(), twoSwitches(), lines(sw, &fake{}), time.Second, time.Now().Add(12*time.Hour), func(e Event) {
			if e.Overdue > 0 {
				t.Errorf("configuration %d of %s overdue by %v", e.Number, e.Switch, e.Overdue)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestDryRun lists the events in the order of time and touches no switch.
func TestDryRun(t *testing.T) {
	events, err := DryRun(twoSwitches(), lines(nil, nil), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%v %s/%d for %v", e.Due, e.Switch, e.Number, e.For))
	}
	if d := cmp.Diff([]string{"6s s0/0 for 1m0s", "6s s1/0 for 2m0s", "1m12s s0/1 for 30s"}, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestUnusableRun(t *testing.T) {
	s := twoSwitches()
	good := lines(nil, nil)
	short, twice := lines(nil, nil), lines(nil, nil)
	short[1].Egress = []int{1, 2}
	twice[0].Ingress = []int{1, 2, 1}
	for _, c := range []struct {
		lines []Line
		unit  time.Duration
		want  string
	}{
		{good, 0, "give the duration of 1"},
		{good[:1], time.Second, "2 switches, the site has 1"},
		{short, time.Second, "2 egress ports"},
		{twice, time.Second, "the same ingress port"},
		{good, 365 * 24 * time.Hour, "longer than a year"},
	} {
		if _, err := DryRun(s, c.lines, c.unit); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

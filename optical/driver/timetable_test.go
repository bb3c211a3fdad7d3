package driver

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/optical/ocs"
)

// TestTimetable lists the circuits of rack 0: if whole, a circuit that stays through a
// change is one slot.
func TestTimetable(t *testing.T) {
	s := twoSwitches()
	s.Switches[0].Configs = append(s.Switches[0].Configs, ocs.Config{Permutation: []int32{2, 1, 0}, Start: 1.8, Weight: 0.2})
	const ms = time.Millisecond
	for _, c := range []struct {
		rack  int
		whole bool
		want  []Slot
	}{
		{0, false, []Slot{{0, 100 * ms, 1100 * ms, 1, 2}, {1, 100 * ms, 2100 * ms, 2, 1}, {0, 1200 * ms, 1700 * ms, 2, 2}, {0, 1800 * ms, 2000 * ms, 2, 2}}},
		{0, true, []Slot{{0, 100 * ms, 1100 * ms, 1, 2}, {1, 100 * ms, 2100 * ms, 2, 1}, {0, 1200 * ms, 2000 * ms, 2, 2}}},
		{1, true, []Slot{{0, 100 * ms, 1100 * ms, 2, 0}, {1, 100 * ms, 2100 * ms, 0, 2}}},
	} {
		got, err := Timetable(s, c.rack, time.Second, c.whole)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("rack %d (-want +got):\n%s", c.rack, d)
		}
	}
	if _, err := Timetable(s, 3, time.Second, true); err == nil {
		t.Error("rack 3 of 0 to 2: no error")
	}
}

// TestTimetablesCarry sums the time that all racks' timetables give each pair: no less than
// its demand, and each rack receives when the other sends.
func TestTimetablesCarry(t *testing.T) {
	d, err := ocs.Workload("benchmark", 12, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ocs.Make(t.Context(), d, ocs.Options{Switches: 3, Delta: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	type link struct{ h, from, to int }
	sent, received := map[link]time.Duration{}, map[link]time.Duration{}
	for rack := range s.Racks {
		slots, err := Timetable(s, rack, time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range slots {
			sent[link{x.Switch, rack, x.To}] += x.End - x.Begin
			received[link{x.Switch, x.From, rack}] += x.End - x.Begin
		}
	}
	if diff := cmp.Diff(sent, received, cmp.Comparer(func(a, b time.Duration) bool { return math.Abs(float64(a-b)) < 1e3 })); diff != "" {
		t.Errorf("sent and received (-sent +received):\n%s", diff)
	}
	total := map[[2]int]float64{}
	for l, x := range sent {
		total[[2]int{l.from, l.to}] += x.Hours()
	}
	for from := range s.Racks {
		for to := range s.Racks {
			if need := d.At(from, to); total[[2]int{from, to}] < need-1e-9 {
				t.Errorf("from %d to %d the timetables have %v, the demand is %v", from, to, total[[2]int{from, to}], need)
			}
		}
	}
}

// TestDeadPorts checks that a dead port has no cross-connect, and that neither of the racks
// that it would join has the circuit in its timetable.
func TestDeadPorts(t *testing.T) {
	d, err := ocs.NewDemand(3, []float64{0, 2, 1, 1, 0, 2, 2, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	dead := ocs.Port{Switch: 0, Rack: 1}
	s, err := ocs.Make(t.Context(), d, ocs.Options{Switches: 2, Delta: 0.1, Method: ocs.Best, Damage: ocs.Damage{DeadPorts: []ocs.Port{dead}}})
	if err != nil {
		t.Fatal(err)
	}
	lines := []Line{{Name: "a", Ingress: []int{1, 2, 3}, Egress: []int{4, 5, 6}}, {Name: "b", Ingress: []int{1, 2, 3}, Egress: []int{4, 5, 6}}}
	events, err := DryRun(s, lines, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for _, p := range e.Pairs {
			if e.Switch == "a" && p.Ingress == 2 {
				t.Errorf("%+v on switch a: that port is dead", p)
			}
		}
	}
	for rack := range 3 {
		slots, err := Timetable(s, rack, time.Second, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range slots {
			if x.Switch == 0 && (rack == 1 && x.To >= 0 || x.From == 1) {
				t.Errorf("rack %d: %+v over a dead port", rack, x)
			}
		}
	}
}

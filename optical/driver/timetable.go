package driver

import (
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/optical/ocs"
)

// Slot is a time for which a rack has the same circuits on a switch. A peer is a rack, or -1.
type Slot struct {
	Switch     int           // of the schedule, from 0
	Begin, End time.Duration // after the start
	To, From   int           // the peers that it sends to and receives from
}

// Timetable lists the circuits of a rack on all switches, in the order of time. If whole is
// set, circuits that stay through a change of the switch are one slot: their light is not
// interrupted. Otherwise each configuration is a separate slot.
func Timetable(s *ocs.Schedule, rack int, unit time.Duration, whole bool) ([]Slot, error) {
	if err := checkUnit(s, unit); err != nil {
		return nil, err
	}
	if rack < 0 || rack >= s.Racks {
		return nil, fmt.Errorf("rack %d: the schedule has racks 0 to %d", rack, s.Racks-1)
	}
	var slots []Slot
	for h, sw := range s.Switches {
		first := len(slots)
		for _, c := range sw.Configs {
			x := Slot{Switch: h, Begin: scale(c.Start, unit), End: scale(c.Start+c.Weight, unit), To: int(c.Permutation[rack]), From: slices.Index(c.Permutation, int32(rack))}
			if x.To == rack { // a rack needs no circuit to itself
				x.To, x.From = -1, -1
			}
			if x.To >= 0 && !s.Joins(h, rack, x.To) {
				x.To = -1
			}
			if x.From >= 0 && !s.Joins(h, x.From, rack) {
				x.From = -1
			}
			if last := len(slots) - 1; whole && last >= first && slots[last].To == x.To && slots[last].From == x.From {
				slots[last].End = x.End
				continue
			}
			slots = append(slots, x)
		}
	}
	slots = slices.DeleteFunc(slots, func(x Slot) bool { return x.To < 0 && x.From < 0 })
	slices.SortStableFunc(slots, func(a, b Slot) int { return int(a.Begin - b.Begin) })
	return slots, nil
}

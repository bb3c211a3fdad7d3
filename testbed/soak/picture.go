package main

import (
	"fmt"

	"github.com/forsd/forsd/api"
)

// picture is the fabric as the API should show it.
type picture struct {
	cables [][]string // [leaf][lane]
	hosts  int        // attached
}

func (w *world) picture() (p picture) {
	for l := range w.leaves {
		states := make([]string, w.tree.Lanes)
		for k := range states {
			switch states[k] = "full"; {
			case !w.joins(l, k):
				states[k] = "missing"
			case !w.plans(l, k):
				states[k] = "degraded"
			}
		}
		p.cables = append(p.cables, states)
	}
	for h, off := range w.hosts {
		if !off && !w.leaves[w.tree.Hosts[h].Leaf] {
			p.hosts++
		}
	}
	return p
}

// expect checks the fabric in the API's answer against the world.
func (w *world) expect(t *api.Topology) error {
	want := w.picture()
	if len(t.Leaves) != len(want.cables) {
		return fmt.Errorf("forsd shows %d leaves, not %d", len(t.Leaves), len(want.cables))
	}
	for l, states := range want.cables {
		for k, state := range states {
			if got := t.Leaves[l].Cables[k]; got != state {
				return fmt.Errorf("the cable at %v is %s, and should be %s", w.port(l, k), got, state)
			}
		}
	}
	if len(t.Hosts) != want.hosts {
		return fmt.Errorf("%d host ports are attached, and %d should be", len(t.Hosts), want.hosts)
	}
	return nil
}

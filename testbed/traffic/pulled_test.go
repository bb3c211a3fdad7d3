package main

import (
	"testing"

	"github.com/forsd/forsd/sim"
)

// TestBetween has an exchange of eight phases go on after its cable is pulled.
func TestBetween(t *testing.T) {
	before := &sim.Result{Servers: 9, PerPhaseMax: []int{1, 1, 1, 1, 1, 1, 1, 1}}
	after := &sim.Result{Servers: 9, PerPhaseMax: []int{2, 2, 2, 2, 2, 2, 2, 2}}
	for _, c := range []struct{ share, lost, want float64 }{{0, 0, 8. / 16}, {0.5, 0, 8. / 12}, {0.5, 4, 8. / 16}, {0.55, 0, 8. / 11}, {1, 0, 1}} {
		if got := between(before, after, c.share, c.lost); got != c.want {
			t.Errorf("after a share of %v, %v lost: %v of a link, want %v", c.share, c.lost, got, c.want)
		}
	}
}

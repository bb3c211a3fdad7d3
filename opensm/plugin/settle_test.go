package plugin

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// TestSettle checks that a sweep begins when both ends of a cable have sent their traps.
func TestSettle(t *testing.T) {
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 2, Conf: map[string]string{"sweep_interval": "600"}, // no sweep but for traps
		PluginOptions: fmt.Sprintf("socket=%s deadline=%d settle=100", s.socket, deadline.Milliseconds())})
	s.installed()
	s.rest()

	changes := []func(context.Context, string, int) error{s.sim.Unlink, s.sim.Relink}
	for i := range 6 {
		if err := changes[i%2](s.ctx, "Leaf001", 5); err != nil { // not the cable by which the leaf's traps go
			t.Fatal(err)
		}
		_, before := next[SweepStart](s)
		ends := map[Trap]bool{}
		for _, e := range before {
			if trap, ok := e.(Trap); ok {
				trap.At = time.Time{}
				ends[trap] = true
			}
		}
		if len(ends) != 2 {
			t.Errorf("change %d: the sweep began after %v, want traps from both ends of the cable", i, before)
		}
		s.up()
		s.rest()
	}
}

// rest waits until OpenSM has told of nothing for a while.
func (s *site) rest() {
	for {
		select {
		case <-s.events:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

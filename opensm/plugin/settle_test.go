package plugin

import (
	"context"
	"fmt"
	"testing"
	"time"

	"forsd/internal/fabgen"
	"forsd/internal/ibsim"
)

// TestSettle holds that a sweep begins when both ends of a cable have sent their
// traps, and that it does begin where traps go on and on.
func TestSettle(t *testing.T) {
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 2, PluginOptions: fmt.Sprintf("socket=%s deadline=%d settle=100", s.socket, deadline.Milliseconds())})
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

	pulled := make(chan error, 1)
	go func() {
		for i := range 60 { // 1.8 s of traps, which the sweep would wait for for ever
			if err := changes[i%2](s.ctx, fmt.Sprintf("Leaf%03d", i/2%3), 6); err != nil {
				pulled <- err
				return
			}
			time.Sleep(30 * time.Millisecond)
		}
		pulled <- nil
	}()
	next[SweepStart](s)
	if len(pulled) > 0 {
		t.Error("no sweep began as long as traps came")
	}
	if err := <-pulled; err != nil {
		t.Fatal(err)
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

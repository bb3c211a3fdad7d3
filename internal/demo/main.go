// Command demo shows forsd's main job from end to end on a simulated fabric: the
// LHCb network FT(2;20,18), 360 hosts, under a real OpenSM. A cable is pulled,
// then a spine, and both are put back; after each step it says what forsd saw,
// what it planned, how long that took, and what the exchange costs on the tables
// that the switches then hold, beside OpenSM's own min-hop tables in the same
// state.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"forsd/internal/fabgen"
)

// The fabric of the FORS paper (section 2.3) and what is done to it.
var (
	lhcb  = fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	steps = []step{
		{"pull one cable: Leaf007 port 31", func(ctx context.Context, s *site) error { return s.sim.Unlink(ctx, "Leaf007", 31) }, "cable"},
		{"pull a spine: Spine012", func(ctx context.Context, s *site) error { return s.sim.UnlinkNode(ctx, "Spine012") }, "cable and spine"},
		{"put the spine back", func(ctx context.Context, s *site) error { return s.sim.RelinkNode(ctx, "Spine012") }, "cable"},
		{"put the cable back", func(ctx context.Context, s *site) error { return s.sim.Relink(ctx, "Leaf007", 31) }, "healthy"},
	}
)

// step is something done to the fabric, and the state that it leads to.
type step struct {
	title string
	do    func(context.Context, *site) error
	state string
}

// limit bounds the whole demonstration.
const limit = 5 * time.Minute

func main() {
	keep := flag.Bool("keep", false, "leave everything running until interrupted")
	forsd := flag.String("forsd", "bin/forsd", "the forsd to show")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *forsd, *keep)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, forsd string, keep bool) (err error) {
	binary, err := filepath.Abs(forsd)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the demonstration took longer than five minutes"))
	defer cancel()
	fmt.Println("FT(2;20,18), the LHCb network: 18 leaves, 20 spines, 360 hosts, LMC 5; simulated by ibsim under a real OpenSM.")
	s, err := open(limited, lhcb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	fmt.Println("\nOpenSM's own min-hop tables, read back from the switches, exchange by linear shift:")
	costs, err := s.minhop(limited)
	if err != nil {
		return fmt.Errorf("min-hop: %w", err)
	}
	fmt.Println("\nforsd beside OpenSM with routing_engine file,no_fallback; no table file exists yet.")
	if err := s.start(limited, binary); err != nil {
		return err
	}
	if err := s.show(limited, "first start", "healthy", costs); err != nil {
		return err
	}
	for _, st := range steps {
		if err := s.walk(limited, st, costs); err != nil {
			return fmt.Errorf("%s: %w", st.title, err)
		}
	}
	printCosts(costs)
	if keep {
		fmt.Printf("\nLeft running. Ask it:\n  bin/forsctl --server %s status\n  curl http://%s/v1/status\nPull a cable:\n  echo 'unlink \"Leaf003\"[25]' > %s/console\nInterrupt (Ctrl-C) to end.\n",
			s.socket(), s.tcp, s.sim.Dir())
		<-ctx.Done()
	}
	return nil
}

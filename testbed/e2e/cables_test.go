package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// TestCableFailures pulls and puts back four cables of the LHCb fabric, with FORS_LONG=1 twenty,
// one at a time, and checks the site after each: see Site.Check. No entry of another lane may change, and plans published
// along the way must hold on the tables of that moment: a lane is used only once its entries are
// there. One plan is published for each event. Only the pairs of the dead lane get other LIDs,
// and they get the previous ones again when the lane is back.
func TestCableFailures(t *testing.T) {
	t.Parallel()
	x, healthy := up(t, 10*time.Minute, lhcb())
	rng := rand.New(rand.NewPCG(20, 18))
	before, err := x.Client.Table(x.ctx)
	x.ok(err)
	const must = 2 * 17 * 20 // pairs: all of a leaf to the servers that own the lane elsewhere, and all others to that of the leaf
	for range many(4, 20) {
		was, err := x.Client.Status(x.ctx)
		x.ok(err)
		leaf, lane := rng.IntN(18), rng.IntN(20)
		at := healthy.Tree.Leaves[leaf]
		port := int(at.Cables[lane].LeafPort)
		name := fmt.Sprintf("%s port %d, lane %d", at.Name, port, lane)

		x.ok(x.Sim.Unlink(x.ctx, at.Name, port))
		st := x.settled(Cable(leaf, lane, "missing"))
		x.said(st.LastEvent.What, fmt.Sprintf("%s port %d", at.Name, port), "went down")
		broken := x.check()
		x.unmoved(healthy, broken, lane)
		if !HasWarning(st, topology.CableDown) || st.Phases > 361 || st.Phases < 359 {
			t.Errorf("%s: %d phases, warnings %v", name, st.Phases, st.Warnings)
		}

		if changes, err := x.Client.Changes(x.ctx, was.Epoch, 0); err != nil || len(changes.Pairs) != must || st.PairsChanged != must || st.Epoch != was.Epoch+1 {
			t.Errorf("%s: epoch %d after %d, %d pairs change by the status and %+v; want %d: %v", name, st.Epoch, was.Epoch, st.PairsChanged, changes, must, err)
		}
		down := st.Epoch
		witness := x.witness(st.Epoch)
		x.ok(x.Sim.Relink(x.ctx, at.Name, port))
		st = x.settled(Cable(leaf, lane, "full"))
		x.said(st.LastEvent.What, fmt.Sprintf("%s port %d", at.Name, port), "came up")
		x.ok(witness(st.Epoch))
		whole := x.check()
		x.unmoved(healthy, whole)
		if HasWarning(st, topology.CableDown) || st.Phases != 359 || st.Engine != "rotation" {
			t.Errorf("%s is back: %d phases by %s, warnings %v", name, st.Phases, st.Engine, st.Warnings)
		}
		now, err := x.Client.Table(x.ctx)
		x.ok(err)
		if changes := phasetable.Changes(before, now); len(changes) > 0 || st.PairsChanged != must || st.Epoch != down+1 {
			t.Errorf("%s is back: epoch %d after %d, %d pairs change, and %d have other LIDs than before", name, st.Epoch, down, st.PairsChanged, len(changes))
		}
	}
	x.noRoutingErrors()
}

// witness watches, from epoch seen on, every plan as soon as it is published,
// reads the switches' tables at once, and verifies the one on the other. The
// function returned waits until the epoch last has been judged.
func (x *test) witness(seen uint64) (verdict func(last uint64) error) {
	ctx, cancel := context.WithCancel(x.ctx)
	var mu sync.Mutex
	judged := seen
	var errs error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := seen; ; {
			p, err := x.Client.WaitEpoch(ctx, at)
			if err == nil {
				at = p.Epoch
				err = x.judge(ctx)
			}
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			errs, judged = errors.Join(errs, err), at
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return func(last uint64) error {
		defer func() { cancel(); <-done }()
		err := x.Until(x.ctx, func() error {
			mu.Lock()
			defer mu.Unlock()
			if judged < last && errs == nil {
				return fmt.Errorf("epoch %d has not been judged", last)
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(err, errs)
	}
}

// judge verifies the plan in force on the tables of this moment.
func (x *test) judge(ctx context.Context) error {
	plan, err := x.Client.Table(ctx)
	if err != nil {
		return err
	}
	sight, err := x.Look(ctx)
	if err != nil {
		return err
	}
	if err := sight.CheckPlan(plan); err != nil {
		return fmt.Errorf("epoch %d on the tables of its moment: %w", plan.Epoch(), err)
	}
	return nil
}

package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// TestRerouteAndRollback changes the plan by the API: a reroute of a correct plan changes
// nothing, an old plan comes back under a new epoch while it holds on the fabric, and is refused
// while it does not.
func TestRerouteAndRollback(t *testing.T) {
	t.Parallel()
	x, s := up(t, 5*time.Minute, small())
	first, err := x.Client.Table(x.ctx)
	x.ok(err)
	done, err := x.Client.Reroute(x.ctx)
	x.ok(err)
	if done.Changed || done.Epoch != first.Epoch() {
		t.Errorf("the reroute of an unchanged fabric says %+v", done)
	}

	broken := false
	x.toggle(s, 1, 2, &broken)
	without := x.settled(Cable(1, 2, "missing")).Epoch
	plan := x.table()
	for _, epoch := range []uint64{first.Epoch(), 999} {
		var refused *api.Error
		if _, err := x.Client.Rollback(x.ctx, epoch); !errors.As(err, &refused) || refused.Code != api.CodeRefused {
			t.Errorf("rollback to epoch %d without the cable: %v", epoch, err)
		}
	}
	if now := x.table().Epoch(); now != without {
		t.Errorf("after refused rollbacks epoch %d is in force, not %d", now, without)
	}

	x.toggle(s, 1, 2, &broken)
	back := x.settled(Cable(1, 2, "full")).Epoch
	done, err = x.Client.Rollback(x.ctx, without)
	x.ok(err)
	if !done.Changed || done.Epoch <= back {
		t.Errorf("the rollback says %+v", done)
	}
	x.sameRows(plan, x.table())
	x.check()
	epochs, err := x.Client.Epochs(x.ctx)
	x.ok(err)
	if e := epochs[len(epochs)-1]; e.Epoch != done.Epoch || e.RollbackOf != without {
		t.Errorf("the last epoch kept is %+v", e)
	}

	// It outlives a crash, and gives way to the next change of the fabric.
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	if st := x.settled(nil); st.Epoch != done.Epoch {
		t.Errorf("after a restart epoch %d is in force, not %d", st.Epoch, done.Epoch)
	}
	x.toggle(s, 3, 0, &broken)
	if st := x.settled(Cable(3, 0, "missing")); st.Epoch <= done.Epoch {
		t.Errorf("epoch %d stays in force though a cable is missing", st.Epoch)
	}
	x.check()
}

func (x *test) table() *phasetable.View {
	x.Helper()
	v, err := x.Client.Table(x.ctx)
	x.ok(err)
	return v
}

// sameRows fails if two plans differ in more than their epochs.
func (x *test) sameRows(a, b *phasetable.View) {
	x.Helper()
	want, got := a.Table(), b.Table()
	got.Epoch, got.TopologyHash = want.Epoch, want.TopologyHash
	if diff := cmp.Diff(want, got); diff != "" {
		x.Errorf("epochs %d and %d differ (-want +got):\n%.2000s", a.Epoch(), b.Epoch(), diff)
	}
}

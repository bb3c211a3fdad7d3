package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
)

// routed waits until a job's plan for base LIDs is that of the job's own routes, and has
// another number than the one seen, and returns it.
func (x *test) routed(job string, seen uint64) *phasetable.View {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	for {
		j, err := x.Client.Job(ctx, job)
		x.ok(err)
		if j.Base != nil && j.Base.Routed && j.Base.Epoch > max(seen, j.ID) {
			break
		}
		select {
		case <-ctx.Done():
			x.Fatalf("job %s has the plan for base LIDs %+v", job, j.Base)
		case <-time.After(50 * time.Millisecond):
		}
	}
	data, _, err := x.Client.JobPhases(ctx, job, false, true)
	x.ok(err)
	plan, err := phasetable.Decode(data)
	x.ok(err)
	return plan
}

// apart walks both plans of jobs on the tables read back, and checks that they use lanes that no
// other of them uses.
func (x *test) apart(names ...string) {
	x.Helper()
	sight, err := x.Look(x.ctx) // not x.check: these tables are not those of a fabric without jobs
	x.ok(err)
	users := map[[2]int]string{}
	for _, name := range names {
		pinned, err := x.Client.WaitJob(x.ctx, name, 0)
		x.ok(err)
		data, _, err := x.Client.JobPhases(x.ctx, name, false, true)
		x.ok(err)
		base, err := phasetable.Decode(data)
		x.ok(err)
		for _, plan := range []*phasetable.View{pinned, base} {
			if err := sight.CheckJob(plan); err != nil {
				x.Errorf("%s, plan %d, on the tables read back: %v", name, plan.Epoch(), err)
			}
			for s := range plan.Servers() {
				row := plan.Row(s)
				for p := range row.Len() {
					t := row.At(p)
					if t.SendTo == phasetable.Idle || t.Lane < 0 {
						continue
					}
					if plan == base && t.DLID != plan.Server(t.SendTo).LID {
						x.Fatalf("%s sends to LID %d of the plan for base LIDs", name, t.DLID)
					}
					for _, leaf := range []int{plan.Server(s).Leaf, plan.Server(t.SendTo).Leaf} {
						if by := users[[2]int{leaf, t.Lane}]; by != "" && by != name {
							x.Fatalf("%s and %s both use lane %d of leaf %d", name, by, t.Lane, leaf)
						}
						users[[2]int{leaf, t.Lane}] = name
					}
				}
			}
		}
	}
}

// TestOwnLanes runs two jobs that share a leaf on lanes of their own, pulls a cable of one,
// kills forsd, and puts the cable back: no lane is ever used by both, and the other job
// keeps its plans.
func TestOwnLanes(t *testing.T) {
	t.Parallel()
	x, healthy := up(t, 5*time.Minute, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 4}), LMC: 3})
	var names [2][]string
	for i := range 16 {
		names[i/9] = append(names[i/9], fmt.Sprintf("Hca%04d", i)) // the leaf of 6 to 11 is both jobs'
	}
	for i, job := range []string{"left", "right"} {
		_, err := x.Client.CreateJob(x.ctx, api.JobRequest{Name: job, Hosts: names[i], OwnLanes: true})
		x.ok(err)
		x.routed(job, 0)
	}
	x.settled(nil)
	x.apart("left", "right")
	before, err := x.Client.Job(x.ctx, "right")
	x.ok(err)
	left := x.routed("left", 0)

	lane := -1 // of the job on the left, at a leaf that is its alone
	for p := range left.Phases() {
		lane = max(lane, left.Row(0).At(p).Lane)
	}
	broken := false
	x.toggle(healthy, 0, lane, &broken)
	x.settled(Cable(0, lane, "missing"))
	without := x.routed("left", left.Epoch())
	x.apart("left", "right")
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	x.settled(nil)
	x.routed("left", 0)
	x.apart("left", "right")
	x.toggle(healthy, 0, lane, &broken)
	x.settled(Cable(0, lane, "full"))
	x.routed("left", without.Epoch())
	x.apart("left", "right")
	after, err := x.Client.Job(x.ctx, "right")
	x.ok(err)
	if after.Epoch != before.Epoch || after.Base == nil || after.Base.Epoch != before.Base.Epoch {
		t.Errorf("the job that no cable was taken from has plan %d and base plan %+v, before %d and %+v", after.Epoch, after.Base, before.Epoch, before.Base)
	}
}

package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Snapshot is the immutable state of a daemon between two actions of the controller.
// Questions are answered from it outside the daemon's loop.
type Snapshot struct {
	leads     bool
	claim     uint64 // of the current takeover, 0 if there is none
	last      uint64 // highest number given
	epoch     *store.Epoch
	fabric    *view.View
	baseline  *topology.Baseline
	base      *phasetable.View // the plan for base LIDs in force
	report    planner.Report   // of that plan
	jobs      []*plans.Job
	decisions store.Decisions
	tag       func() string // computed on first use
}

// Now returns the present state. It must be called between two actions of the controller.
func (s *State) Now(leads bool, claim uint64) *Snapshot {
	n := &Snapshot{leads: leads, claim: claim, last: s.Store.Last(), epoch: s.State.Current(), fabric: s.State.Latest(),
		baseline: s.State.Baseline(), jobs: s.Jobs.List(), decisions: s.Store.Decisions()}
	n.base, n.report = s.State.BasePlan()
	n.tag = sync.OnceValue(n.hash)
	return n
}

// beginning returns the snapshot of a daemon that begins to lead or to take over while an
// action is under way. A daemon that stops leading reports that after the action, because
// the action may still give a number.
func (n *Snapshot) beginning(leads bool, claim uint64) *Snapshot {
	next := *n
	next.leads, next.claim = n.leads || leads, claim
	return &next
}

// same reports whether two snapshots are the same. It compares pointers, because the parts
// are immutable.
func (n *Snapshot) same(o *Snapshot) bool {
	return o != nil && n.leads == o.leads && n.claim == o.claim && n.last == o.last && n.epoch == o.epoch && n.baseline == o.baseline && n.base == o.base &&
		(n.fabric == o.fabric || n.fabric != nil && o.fabric != nil && n.fabric.ID == o.fabric.ID) && slices.Equal(n.jobs, o.jobs) &&
		reflect.ValueOf(n.decisions).UnsafePointer() == reflect.ValueOf(o.decisions).UnsafePointer()
}

// hash returns the tag of the state except leads.
func (n *Snapshot) hash() string {
	h := sha256.New()
	fmt.Fprintln(h, n.last)
	if n.baseline != nil {
		h.Write(n.baseline.Encode())
	}
	if n.fabric != nil {
		fmt.Fprintln(h, n.fabric.ID)
	}
	if n.epoch != nil {
		fmt.Fprintln(h, n.epoch.Epoch)
	}
	if n.base != nil {
		fmt.Fprintln(h, "base", n.base.Epoch())
	}
	for _, name := range slices.Sorted(maps.Keys(n.decisions)) {
		fmt.Fprintf(h, "decided %s %s\n", name, n.decisions[name])
	}
	for _, j := range n.jobs {
		fmt.Fprintln(h, j.ID, j.Epoch, j.Expires.UnixNano(), j.BaseEpoch, j.Routed, len(j.Lanes))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Replica returns the answer to a question.
func (n *Snapshot) Replica(q standby.Ask) *Replica {
	out := &Replica{Leads: n.leads, Claim: n.claim, Last: n.last, Tag: fmt.Sprintf("%t", n.leads), Clock: time.Now().UnixMilli()}
	if !q.Brief {
		out.Tag += "-" + n.tag()
	}
	if q.Brief || out.Tag == q.Have {
		return out
	}
	out.Whole, out.Baseline, out.Decisions = true, n.baseline, n.decisions
	if n.fabric != nil {
		out.Fabric = n.fabric.Fabric
	}
	if n.epoch != nil {
		out.Epoch = &Kept[store.EpochInfo]{About: n.epoch.EpochInfo, Table: n.epoch.Plan.Bytes()}
	}
	if n.base != nil {
		out.BaseLIDs = &Kept[planner.Report]{About: n.report, Table: n.base.Bytes()}
	}
	for _, j := range n.jobs {
		kept := Kept[store.JobInfo]{About: j.JobInfo, Table: j.Plan.Bytes()}
		if j.Base != nil {
			kept.Base = j.Base.Bytes()
		}
		out.Jobs = append(out.Jobs, kept)
	}
	return out
}

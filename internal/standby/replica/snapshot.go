package replica

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/planner"
)

// Snapshot is the immutable state of a daemon between two actions of the controller.
// Questions are answered from it outside the daemon's loop.
type Snapshot struct {
	word      standby.Word // without tag and epoch
	lost      uint64       // as store.Numbers has it
	state     *state.State
	decisions store.Decisions
	tag       func() string // computed on first use
}

// Now returns the present state. It must be called between two actions of the controller.
func (s *State) Now(word standby.Word) *Snapshot {
	word.Last, word.Passed = s.Store.Disk.Numbers.Last(), s.Store.Disk.Numbers.Passed()
	n := &Snapshot{word: word, lost: s.Store.Disk.Numbers.Lost(), state: s.State.Now(), decisions: s.Store.Decisions()}
	n.tag = sync.OnceValue(n.hash)
	return n
}

// beginning returns the snapshot of a daemon that begins to lead or to take over while an
// action is under way. A daemon that stops leading reports that after the action, because
// the action may still give a number.
func (n *Snapshot) beginning(word standby.Word) *Snapshot {
	next := *n
	word.Numbers, word.Leads = n.word.Numbers, n.word.Leads || word.Leads
	next.word = word
	return &next
}

// same reports whether two snapshots are the same. It compares pointers, because the parts
// are immutable.
func (n *Snapshot) same(o *Snapshot) bool {
	if o == nil {
		return false
	}
	a, b := n.state, o.state
	return n.word == o.word && a.Epoch == b.Epoch && a.Baseline == b.Baseline && a.Base == b.Base &&
		(a.Latest == b.Latest || a.Latest != nil && b.Latest != nil && a.Latest.ID == b.Latest.ID) && slices.Equal(a.Jobs, b.Jobs) &&
		reflect.ValueOf(n.decisions).UnsafePointer() == reflect.ValueOf(o.decisions).UnsafePointer()
}

// hash returns the tag of the state except who leads where.
func (n *Snapshot) hash() string {
	h, now := sha256.New(), n.state
	fmt.Fprintln(h, n.word.Numbers)
	if now.Baseline != nil {
		h.Write(now.Baseline.Encode())
	}
	if now.Latest != nil {
		fmt.Fprintln(h, now.Latest.ID)
	}
	if now.Epoch != nil {
		fmt.Fprintln(h, now.Epoch.Epoch)
	}
	if now.Base != nil {
		fmt.Fprintln(h, "base", now.Base.Plan.Epoch())
	}
	for _, name := range slices.Sorted(maps.Keys(n.decisions)) {
		fmt.Fprintf(h, "decided %s %s\n", name, n.decisions[name])
	}
	for _, j := range now.Jobs {
		fmt.Fprintln(h, j.ID, j.Epoch, j.Expires.UnixNano(), j.BaseEpoch, j.Routed, len(j.Lanes))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Replica returns the answer to a question.
func (n *Snapshot) Replica(q standby.Ask) *Replica {
	now, w := n.state, &n.word
	out := &Replica{Leads: w.Leads, Missing: w.Missing, Claim: w.Claim, Last: w.Last, Passed: w.Passed, Tag: fmt.Sprintf("%t-%d", w.Leads, w.Missing), Clock: time.Now().UnixMilli()}
	if !q.Brief {
		out.Tag += "-" + n.tag()
	}
	if q.Brief { // the other one leads, and must be above these numbers
		out.Last = max(out.Last, n.lost)
	}
	if q.Brief || out.Tag == q.Have {
		return out
	}
	out.Whole, out.Baseline, out.Decisions = true, now.Baseline, n.decisions
	if now.Latest != nil {
		out.Fabric = now.Latest.Fabric
	}
	if now.Epoch != nil {
		out.Epoch = &Kept[store.EpochInfo]{About: now.Epoch.EpochInfo, Table: now.Epoch.Plan.Bytes()}
	}
	if now.Base != nil {
		out.BaseLIDs = &Kept[planner.Report]{About: now.Base.Report, Table: now.Base.Plan.Bytes()}
		if out.Epoch != nil && bytes.Equal(out.Epoch.Table, out.BaseLIDs.Table) {
			out.BaseLIDs.Table = nil
		}
	}
	for _, j := range now.Jobs {
		kept := Kept[store.JobInfo]{About: j.JobInfo, Table: j.Plan.Bytes()}
		if j.Base != nil {
			kept.Base = j.Base.Bytes()
		}
		out.Jobs = append(out.Jobs, kept)
	}
	return out
}

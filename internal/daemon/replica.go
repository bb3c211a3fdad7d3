package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// replica is what the daemon beside a standby keeps in step with: what the leading
// one would find in its state directory after a restart, and the fabric.
type replica struct {
	Tag   string `json:"tag"`   // another one whenever something else here is
	Leads bool   `json:"leads"` // the manager next door is the master
	Last  uint64 `json:"last"`  // the highest number known to be given to an epoch or a job's plan

	// What follows is left out where whoever asks has it.
	Whole    bool                   `json:"whole"`
	Baseline *topology.Baseline     `json:"baseline,omitempty"`
	Fabric   *topology.Fabric       `json:"fabric,omitempty"` // as seen last
	Epoch    *kept[store.EpochInfo] `json:"epoch,omitempty"`
	Jobs     []kept[store.JobInfo]  `json:"jobs,omitempty"`
}

// kept is a plan as the store keeps it.
type kept[T any] struct {
	About T      `json:"about"`
	Table []byte `json:"table"` // phases.bin
}

// bell wakes everybody who waits. Its zero value is ready.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

// next is closed when the bell rings next.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

const (
	replicaPath = "/v1/replica"
	// replicaWait is the longest wait for another replica.
	replicaWait = time.Minute
	// replicaLook is how late a change may be that no event tells of, such as a
	// lease that was renewed.
	replicaLook = time.Second
)

// showReplica answers /v1/replica?have=TAG&wait=SECONDS: what the asker does not
// have, as soon as there is something. brief=1 leaves everything out but whether
// this daemon leads.
func (d *Daemon) showReplica(r *http.Request) (any, error) {
	var wait time.Duration
	if s := r.FormValue("wait"); s != "" {
		seconds, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return nil, api.BadRequest("wait=%s is no number of seconds", s)
		}
		wait = min(time.Duration(seconds)*time.Second, replicaWait)
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	look := time.NewTicker(replicaLook)
	defer look.Stop()
	have, brief := r.FormValue("have"), r.FormValue("brief") != ""
	for {
		rung := d.news.next()
		var out *replica
		if err := d.calm(r.Context(), func() { out = d.replica(have, brief) }); err != nil {
			return nil, err
		}
		if out.Tag != have || wait == 0 {
			return out, nil
		}
		select {
		case <-rung:
		case <-look.C:
		case <-late.C:
			return out, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// replica is the state now. It runs while no action is under way.
func (d *Daemon) replica(have string, brief bool) *replica {
	out := &replica{Leads: !d.core.Standby(), Last: d.store.Last()}
	e, v, base, jobs := d.current(), d.latest(), d.baseline(), d.jobList()
	h := sha256.New()
	fmt.Fprintln(h, out.Leads, brief)
	if !brief {
		fmt.Fprintln(h, out.Last)
		if base != nil {
			h.Write(base.Encode())
		}
		if v != nil {
			fmt.Fprintln(h, v.id)
		}
		if e != nil {
			fmt.Fprintln(h, e.Epoch)
		}
		for _, j := range jobs {
			fmt.Fprintln(h, j.ID, j.Epoch, j.Expires.UnixNano())
		}
	}
	out.Tag = hex.EncodeToString(h.Sum(nil)[:8])
	if brief || out.Tag == have {
		return out
	}
	out.Whole, out.Baseline = true, base
	if v != nil {
		out.Fabric = v.tree.Fabric
	}
	if e != nil {
		out.Epoch = &kept[store.EpochInfo]{e.EpochInfo, e.Plan.Bytes()}
	}
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, kept[store.JobInfo]{j.JobInfo, j.Plan.Bytes()})
	}
	return out
}

// check refuses what no forsd of this version answers.
func (r *replica) check() error {
	if r.Tag == "" {
		return errors.New("what answers is no forsd, or of another version")
	}
	highest := r.Last
	if r.Epoch != nil {
		highest = max(highest, r.Epoch.About.Epoch)
	}
	for i := range r.Jobs {
		highest = max(highest, r.Jobs[i].About.ID, r.Jobs[i].About.Epoch)
	}
	switch {
	case highest > store.HighestNumber:
		return fmt.Errorf("it says that a plan has the number %d: no forsd gives such numbers", highest)
	case r.Whole && highest > r.Last:
		return fmt.Errorf("it has a plan with the number %d, and says that it has given numbers up to %d", highest, r.Last)
	}
	return nil
}

// keep makes the state that another daemon has led with this one's: durable first,
// then for everybody who asks. It runs while no action is under way.
func (d *Daemon) keep(r *replica) error {
	if r.Baseline != nil {
		base, err := topology.ReadBaseline(r.Baseline.Encode())
		if err != nil {
			return err
		}
		d.adopt(base)
		if err := d.saveBaseline(); err != nil {
			return err
		}
	}
	if r.Epoch != nil {
		if err := d.keepEpoch(r.Epoch); err != nil {
			return err
		}
	}
	if err := d.keepJobs(r.Jobs); err != nil {
		return err
	}
	d.store.Raise(r.Last)
	if r.Last > d.store.Passed() {
		d.reissue = false // whatever was lost here is older than what the other one has
	}
	return nil
}

// keepEpoch takes over the epoch in force.
func (d *Daemon) keepEpoch(k *kept[store.EpochInfo]) error {
	plan, err := phasetable.Decode(k.Table)
	if err != nil {
		return err
	}
	n := k.About.Epoch
	if plan.Epoch() != n {
		return fmt.Errorf("epoch %d comes with the table of epoch %d", n, plan.Epoch())
	}
	if old := d.current(); old != nil && old.Epoch == n && bytes.Equal(old.Plan.Bytes(), k.Table) {
		return nil
	}
	e := &store.Epoch{EpochInfo: k.About, Plan: plan}
	if err := d.store.ReplaceEpoch(e, d.cfg.KeepEpochs); err != nil {
		return err
	}
	return d.setCurrent(e)
}

// keepJobs takes over the jobs: those that are not among them have ended.
func (d *Daemon) keepJobs(jobs []kept[store.JobInfo]) error {
	for i := range jobs {
		if err := d.keepJob(&jobs[i]); err != nil {
			return err
		}
	}
	for _, j := range d.jobList() {
		if slices.ContainsFunc(jobs, func(k kept[store.JobInfo]) bool { return k.About.ID == j.ID }) {
			continue
		}
		if err := d.endJob(j, "removed"); err != nil {
			return err
		}
	}
	d.jobWarnings(nil)
	return nil
}

func (d *Daemon) keepJob(k *kept[store.JobInfo]) error {
	plan, err := phasetable.Decode(k.Table)
	if err != nil {
		return err
	}
	j := &job{Job: store.Job{JobInfo: k.About, Plan: plan}}
	if plan.Job() != j.ID || plan.Epoch() != j.Epoch {
		return fmt.Errorf("job %d, epoch %d comes with the table of job %d, epoch %d", j.ID, j.Epoch, plan.Job(), plan.Epoch())
	}
	save := d.store.ReplaceJob
	for _, old := range d.jobList() {
		if old.ID != j.ID {
			continue
		}
		j.plans = old.plans
		if old.Epoch == j.Epoch && old.Expires.Equal(j.Expires) {
			return nil
		}
		if old.Epoch == j.Epoch {
			save = d.store.SaveLease
		}
	}
	if err := save(&j.Job); err != nil {
		return err
	}
	return d.setJob(j)
}

// fabricOf is the fabric of a replica, checked.
func fabricOf(r *replica) (*topology.Fabric, error) {
	for i := range r.Fabric.Nodes {
		for p := range r.Fabric.Nodes[i].Ports {
			if port := &r.Fabric.Nodes[i].Ports[p]; port.Peer < topology.None {
				return nil, fmt.Errorf("the fabric has a port whose peer is %d", port.Peer)
			}
		}
	}
	return topology.NewFabric(r.Fabric.Nodes, r.Fabric.SM)
}

// mirror takes over what the leading daemon has, and plans its fabric ahead. It
// runs while no action is under way.
func (d *Daemon) mirror(ctx context.Context, r *replica) error {
	if r.Last < d.store.Last() {
		return fmt.Errorf("it has given numbers up to %d, and this forsd up to %d", r.Last, d.store.Last())
	}
	if err := d.keep(r); err != nil {
		return err
	}
	if d.current() != nil {
		d.nowReady()
	}
	if r.Fabric == nil || d.baseline() == nil {
		return nil
	}
	f, err := fabricOf(r)
	if err != nil {
		return err
	}
	v, err := d.sight(ctx, linkstate.Shown{Fabric: f, Swept: true, Seen: time.Now()})
	if err != nil {
		return errors.Join(errors.New("its fabric cannot be used"), err)
	}
	d.take(ctx, v, true)
	d.peer.shown = false
	return nil
}

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/internal/jobs"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// This file takes over what the leading forsd has: state, plan and tables.

// keep makes the state that another daemon has led with this one's: durable first,
// then for everybody who asks. It runs while no action is under way.
func (d *Daemon) keep(r *replica.Replica) error {
	if r.Baseline != nil {
		base, err := topology.ReadBaseline(r.Baseline.Encode())
		if err != nil {
			return err
		}
		d.store.BaselineFound()
		d.board.Adopt(base)
		d.store.KeepBaseline()
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
		d.press.Reissue(false) // whatever was lost here is older than what the other one has
	}
	return nil
}

// keepEpoch takes over the epoch in force.
func (d *Daemon) keepEpoch(k *replica.Kept[store.EpochInfo]) error {
	plan, err := phasetable.Decode(k.Table)
	if err != nil {
		return err
	}
	n := k.About.Epoch
	if plan.Epoch() != n {
		return fmt.Errorf("epoch %d comes with the table of epoch %d", n, plan.Epoch())
	}
	if old := d.board.Current(); old != nil && old.Epoch == n && bytes.Equal(old.Plan.Bytes(), k.Table) {
		return nil
	}
	e := &store.Epoch{EpochInfo: k.About, Plan: plan}
	d.store.NotStored(d.store.OnDisk(func() error { return d.store.ReplaceEpoch(e, d.cfg.KeepEpochs) }))
	return d.board.SetCurrent(e)
}

// keepJobs takes over the jobs: those that are not among them have ended.
func (d *Daemon) keepJobs(jobs []replica.Kept[store.JobInfo]) error {
	for i := range jobs {
		if err := d.keepJob(&jobs[i]); err != nil {
			return err
		}
	}
	for _, j := range d.jobs.List() {
		if slices.ContainsFunc(jobs, func(k replica.Kept[store.JobInfo]) bool { return k.About.ID == j.ID }) {
			continue
		}
		d.jobs.End(j, "removed")
	}
	d.jobs.Warnings(nil)
	return nil
}

func (d *Daemon) keepJob(k *replica.Kept[store.JobInfo]) error {
	plan, err := phasetable.Decode(k.Table)
	if err != nil {
		return err
	}
	j := &jobs.Job{Job: store.Job{JobInfo: k.About, Plan: plan}}
	if plan.Job() != j.ID || plan.Epoch() != j.Epoch {
		return fmt.Errorf("job %d, epoch %d comes with the table of job %d, epoch %d", j.ID, j.Epoch, plan.Job(), plan.Epoch())
	}
	save := d.store.ReplaceJob
	for _, old := range d.jobs.List() {
		if old.ID != j.ID {
			continue
		}
		j.Plans = old.Plans
		if old.Epoch == j.Epoch && old.Expires.Equal(j.Expires) {
			return nil
		}
		if old.Epoch == j.Epoch {
			save = d.store.SaveLease
		}
	}
	d.store.NotStored(d.store.OnDisk(func() error { return save(&j.Job) }))
	return d.jobs.Set(j)
}

// mirror takes over what the leading daemon has, and plans its fabric ahead. It
// runs while no action is under way.
func (d *Daemon) mirror(ctx context.Context, r *replica.Replica) error {
	if err := d.keep(r); err != nil {
		return err
	}
	if d.board.Current() != nil {
		d.nowReady()
	}
	if r.Fabric == nil || d.board.Baseline() == nil {
		return nil
	}
	f, err := r.CheckedFabric()
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

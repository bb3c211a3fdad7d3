package daemon

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/store"
)

// This file is for a state directory that takes nothing: its disk is full, read-only or
// failing, or it has vanished. Plans and tables do not wait for it.

const (
	stateNotDurable = "state-not-durable"
	baselineLost    = "baseline-lost"
)

// restoreEvery is how often it is tried to store what could not be stored.
const restoreEvery = 2 * time.Second

// openStore takes the state directory. Which numbers were given is told beside it too: where
// the API's socket is, which is no disk, and where the table file is, which may be another.
func (d *Daemon) openStore() (err error) {
	d.store, err = store.Open(d.cfg.StateDir, d.cfg.API.Socket+".numbers", d.cfg.OpenSM.LFTsFile+".numbers")
	return err
}

// toStore is all that is in force, and is to be stored.
func (d *Daemon) toStore() store.State {
	s := store.State{Epoch: d.board.current()}
	s.Baseline, _ = d.board.toStore()
	for _, j := range d.jobList() {
		s.Jobs = append(s.Jobs, &j.Job)
	}
	return s
}

// lookAtDisk notices a state directory that is not what it was. It runs while no action is
// under way.
func (d *Daemon) lookAtDisk() {
	if _, dirty := d.board.toStore(); dirty {
		return // the next plan stores it
	}
	d.store.Look(d.toStore())
	d.showDurability()
}

// onDisk stores something, unless something else waits for the disk already: the next
// restore stores all.
func (d *Daemon) onDisk(save func() error) error {
	if err := d.store.Owed(); err != nil {
		return err
	}
	return save()
}

// reveal has an epoch outlast this process, or makes it safe to have it in force from
// memory: perhaps under another number.
func (d *Daemon) reveal(e *store.Epoch) (*store.Epoch, error) {
	err := d.fromMemory(e.Epoch, d.onDisk(func() error { return d.store.Reveal(e) }))
	if !errors.Is(err, store.ErrNumber) {
		return e, err
	}
	table := e.Plan.Table()
	table.Epoch = d.store.Next()
	again, err := store.NewEpoch(table)
	if err != nil {
		return nil, err
	}
	again.EpochInfo = e.EpochInfo
	again.Epoch = table.Epoch
	return again, d.store.Give(again.Epoch)
}

// fromMemory has something be in force under the number n whether it could be stored or
// not. The error says that the number is not safe then: the store's next one is.
func (d *Daemon) fromMemory(n uint64, err error) error {
	if err == nil {
		return nil
	}
	d.notStored(err)
	return d.store.Give(n)
}

// notStored takes note of what could not be stored.
func (d *Daemon) notStored(err error) {
	if err != nil {
		d.log.Error("not stored, and in force from memory", zap.Error(err))
		d.showDurability()
	}
}

// showDurability warns while not all is stored that is in force.
func (d *Daemon) showDurability() {
	if err := d.store.Owed(); err != nil {
		d.health.Raise(stateNotDurable, err.Error()+"; plans and jobs are in force from memory until then, and lost where forsd ends before", time.Now())
		return
	}
	d.health.Clear(stateNotDurable)
}

// baselineFound ends the time of a baseline that is not stored.
func (d *Daemon) baselineFound() {
	d.board.found()
	d.health.Clear(baselineLost)
}

// restoreDue is when it is tried again to store what could not be stored, zero for never.
func (d *Daemon) restoreDue() time.Time {
	if d.store.Owed() == nil {
		return time.Time{}
	}
	return d.restoreAt
}

// restore stores what could not be stored, if it is time. It runs while no action is under
// way.
func (d *Daemon) restore(now time.Time) {
	if d.store.Owed() == nil || now.Before(d.restoreAt) {
		return
	}
	d.restoreAt = now.Add(restoreEvery)
	if err := d.store.Restore(d.toStore(), d.cfg.KeepEpochs); err == nil {
		d.log.Info("all that is in force is stored again", zap.Uint64("epoch", d.board.epochNumber()))
	}
	d.showDurability()
}

package daemon

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
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

// vault is the store, and what it is owed. It is used by one action at a time, and by the
// loop between actions; requests read old plans.
type vault struct {
	*store.Store
	log    *zap.Logger
	health *health.Tracker
	board  *Board
	jobs   func() []*job // in force
	keep   int           // epochs

	restoreAt time.Time // when it is tried again to store what could not be
}

// openVault takes the state directory. Which numbers were given is told beside it too: where
// the API's socket is, which is no disk, and where the table file is, which may be another.
func openVault(cfg *config.Config, log *zap.Logger, b *Board, jobs func() []*job) (*vault, error) {
	s, err := store.Open(cfg.StateDir, cfg.API.Socket+".numbers", cfg.OpenSM.LFTsFile+".numbers")
	return &vault{Store: s, log: log, health: b.health, board: b, jobs: jobs, keep: cfg.KeepEpochs}, err
}

// state is all that is in force, and is to be stored.
func (v *vault) state() store.State {
	s := store.State{Epoch: v.board.current()}
	s.Baseline, _ = v.board.toStore()
	for _, j := range v.jobs() {
		s.Jobs = append(s.Jobs, &j.Job)
	}
	return s
}

// saveBaseline makes the baseline durable if it is not, and can be.
func (v *vault) saveBaseline() {
	base, dirty := v.board.toStore()
	if !dirty {
		return
	}
	if err := v.SaveBaseline(base); err != nil {
		v.notStored(err)
		return
	}
	v.board.stored(base)
}

// lookAtDisk notices a state directory that is not what it was. It runs while no action is
// under way.
func (v *vault) lookAtDisk() {
	if _, dirty := v.board.toStore(); dirty {
		return // the next plan stores it
	}
	v.Look(v.state())
	v.showDurability()
}

// onDisk stores something, unless something else waits for the disk already: the next
// restore stores all.
func (v *vault) onDisk(save func() error) error {
	if err := v.Owed(); err != nil {
		return err
	}
	return save()
}

// reveal has an epoch outlast this process, or makes it safe to have it in force from
// memory: perhaps under another number.
func (v *vault) reveal(e *store.Epoch) (*store.Epoch, error) {
	err := v.fromMemory(e.Epoch, v.onDisk(func() error { return v.Reveal(e) }))
	if !errors.Is(err, store.ErrNumber) {
		return e, err
	}
	table := e.Plan.Table()
	table.Epoch = v.Next()
	again, err := store.NewEpoch(table)
	if err != nil {
		return nil, err
	}
	again.EpochInfo = e.EpochInfo
	again.Epoch = table.Epoch
	return again, v.Give(again.Epoch)
}

// fromMemory has something be in force under the number n whether it could be stored or
// not. The error says that the number is not safe then: the store's next one is.
func (v *vault) fromMemory(n uint64, err error) error {
	if err == nil {
		return nil
	}
	v.notStored(err)
	return v.Give(n)
}

// notStored takes note of what could not be stored.
func (v *vault) notStored(err error) {
	if err != nil {
		v.log.Error("not stored, and in force from memory", zap.Error(err))
		v.showDurability()
	}
}

// showDurability warns while not all is stored that is in force.
func (v *vault) showDurability() {
	if err := v.Owed(); err != nil {
		v.health.Raise(stateNotDurable, err.Error()+"; plans and jobs are in force from memory until then, and lost where forsd ends before", time.Now())
		return
	}
	v.health.Clear(stateNotDurable)
}

// baselineFound ends the time of a baseline that is not stored.
func (v *vault) baselineFound() {
	v.board.found()
	v.health.Clear(baselineLost)
}

// restoreDue is when it is tried again to store what could not be stored, zero for never.
func (v *vault) restoreDue() time.Time {
	if v.Owed() == nil {
		return time.Time{}
	}
	return v.restoreAt
}

// restore stores what could not be stored, if it is time. It runs while no action is under
// way.
func (v *vault) restore(now time.Time) {
	if v.Owed() == nil || now.Before(v.restoreAt) {
		return
	}
	v.restoreAt = now.Add(restoreEvery)
	if err := v.Restore(v.state(), v.keep); err == nil {
		v.log.Info("all that is in force is stored again", zap.Uint64("epoch", v.board.epochNumber()))
	}
	v.showDurability()
}

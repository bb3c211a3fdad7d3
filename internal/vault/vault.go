// Package vault combines the store with the writes that its disk has not accepted yet, so that
// plans and tables do not wait for the disk.
package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/phasetable"
)

// This file handles a state directory that cannot be written: its disk is full, read-only or
// failing, or it has disappeared. Plans and tables do not wait for it.

// The codes of the warnings of the vault.
const (
	StateNotDurable = "state-not-durable"
	BaselineLost    = "baseline-lost"
)

// restoreEvery is the interval between attempts to store pending writes.
const restoreEvery = 2 * time.Second

// Vault is the store with its pending writes. At any time only one action uses it, or the loop
// between actions. Requests read old plans.
type Vault struct {
	*store.Store
	log    *zap.Logger
	health *health.Tracker
	board  *board.Board
	jobs   func() []*store.Job // in force
	keep   int                 // epochs

	restoreAt time.Time // the time of the next attempt to store
	decisions store.Decisions
	tables    *os.File // the lock of the table file; nil if not held
}

// Open opens the state directory. Note files record the numbers given in two other places: next
// to the API's socket, which is not on a disk, and next to the table file, which may be on
// another disk.
func Open(cfg *config.Config, log *zap.Logger, b *board.Board, jobs func() []*store.Job) (*Vault, error) {
	var tables *os.File
	if cfg.Mode != config.ModeWatch { // otherwise it writes none
		var err error
		if tables, err = store.Take(cfg.OpenSM.LFTsFile+".lock", "table file "+cfg.OpenSM.LFTsFile); err != nil {
			return nil, err
		}
	}
	s, err := store.Open(cfg.StateDir, cfg.API.Socket+".numbers", cfg.OpenSM.LFTsFile+".numbers")
	v := &Vault{Store: s, log: log, health: b.Health, board: b, jobs: jobs, keep: cfg.KeepEpochs, decisions: store.Decisions{}, tables: tables}
	if err != nil {
		return v, errors.Join(err, v.release())
	}
	return v, nil
}

// Close releases the state directory and the table file for other processes.
func (v *Vault) Close() error { return errors.Join(v.Store.Close(), v.release()) }

func (v *Vault) release() error {
	if v.tables == nil {
		return nil
	}
	f := v.tables
	v.tables = nil
	return f.Close()
}

// ResumeDecisions loads the stored decisions. An error means that the file is damaged.
func (v *Vault) ResumeDecisions() error {
	d, err := v.Store.Decisions()
	if len(d) > 0 {
		v.decisions = d
	}
	return err
}

// Decisions returns the decisions about parts of the fabric, by the name of the package that
// made them.
func (v *Vault) Decisions() store.Decisions { return v.decisions }

// Decision decodes the decisions of one package into out. If it has none, out is unchanged.
func (v *Vault) Decision(name string, out any) error {
	text, there := v.decisions[name]
	if !there {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("what was decided about %s: %w", name, err)
	}
	return nil
}

// Decide stores the decisions of one package; nil removes them. If the disk fails, they are in
// force in memory.
func (v *Vault) Decide(name string, what any) error {
	all := maps.Clone(v.decisions)
	delete(all, name)
	if what != nil {
		text, err := json.Marshal(what)
		if err != nil {
			return err
		}
		all[name] = text
	}
	all.Count()
	v.TakeDecisions(all)
	return nil
}

// TakeDecisions replaces and stores all decisions, such as those of another forsd.
func (v *Vault) TakeDecisions(all store.Decisions) {
	if maps.EqualFunc(all, v.decisions, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return
	}
	v.decisions = store.Decisions{}
	maps.Copy(v.decisions, all)
	v.NotStored(v.OnDisk(func() error { return v.SaveDecisions(v.decisions) }))
}

// state returns the state in force, for storing.
func (v *Vault) state() store.State {
	s := store.State{Epoch: v.board.Current(), Base: v.board.LastBase()}
	s.Baseline, _ = v.board.ToStore()
	s.Jobs, s.Decisions = v.jobs(), v.decisions
	return s
}

// KeepBaseline stores the baseline if necessary and possible.
func (v *Vault) KeepBaseline() {
	base, dirty := v.board.ToStore()
	if !dirty {
		return
	}
	if err := v.SaveBaseline(base); err != nil {
		v.NotStored(err)
		return
	}
	v.board.Stored(base)
}

// LookAtDisk detects that the state directory was replaced. It runs while no action is under
// way.
func (v *Vault) LookAtDisk() {
	if _, dirty := v.board.ToStore(); dirty {
		return // the next plan stores it
	}
	v.Look(v.state())
	v.ShowDurability()
}

// OnDisk runs save, unless other writes are pending: then the next restore stores everything.
func (v *Vault) OnDisk(save func() error) error {
	if err := v.Owed(); err != nil {
		return err
	}
	return save()
}

// Reveal stores an epoch so that it outlasts this process, or otherwise makes it safe to have
// it in force in memory, possibly with another number.
func (v *Vault) Reveal(e *store.Epoch) (*store.Epoch, error) {
	err := v.Put(e.Epoch, func(n uint64) error {
		if n == e.Epoch {
			return nil
		}
		plan, err := e.Plan.Numbered(n, e.Plan.TopologyHash())
		e = &store.Epoch{EpochInfo: e.EpochInfo, Plan: plan}
		e.Epoch = n
		return err
	}, func() error { return v.Store.Reveal(e) })
	return e, err
}

// Put encodes an object with the number n and saves it. If the disk fails, the object is in
// force in memory, with the next number if n cannot be made safe.
func (v *Vault) Put(n uint64, encode func(n uint64) error, save func() error) error {
	if err := encode(n); err != nil {
		return err
	}
	err := v.FromMemory(n, v.OnDisk(save))
	if !errors.Is(err, store.ErrNumber) {
		return err
	}
	n = v.Next()
	return errors.Join(encode(n), v.Give(n))
}

// PutBase saves a plan for base LIDs with the number n and returns it. If last is the same plan
// and may keep its number, PutBase returns last.
func (v *Vault) PutBase(t phasetable.Table, last *phasetable.View, n uint64, save func(*phasetable.View) error) (plan *phasetable.View, err error) {
	encode := func(n uint64) (err error) {
		t.Epoch = n
		plan, err = phasetable.New(&t)
		return err
	}
	if last != nil && last.Epoch() > v.Passed() {
		if err := encode(last.Epoch()); err != nil || bytes.Equal(plan.Bytes(), last.Bytes()) {
			return last, err
		}
	}
	err = v.Put(n, encode, func() error { return save(plan) })
	return plan, err
}

// FromMemory puts an object with the number n in force even if it could not be stored. An error
// means that the number is not safe, but the store's next number is.
func (v *Vault) FromMemory(n uint64, err error) error {
	if err == nil {
		return nil
	}
	v.NotStored(err)
	return v.Give(n)
}

// NotStored records a failed write.
func (v *Vault) NotStored(err error) {
	if err != nil {
		v.log.Error("not stored, and in force from memory", zap.Error(err))
		v.ShowDurability()
	}
}

// ShowDurability warns while part of the state in force is not stored.
func (v *Vault) ShowDurability() {
	if err := v.Owed(); err != nil {
		v.health.Raise(StateNotDurable, rights.Explain(err).Error()+"; plans and jobs are in force from memory until then, and are lost if forsd stops before", time.Now())
		return
	}
	v.health.Clear(StateNotDurable)
}

// BaselineFound ends the state in which the baseline is not stored.
func (v *Vault) BaselineFound() {
	v.board.Found()
	v.health.Clear(BaselineLost)
}

// RestoreDue returns the time of the next attempt to store pending writes; zero means never.
func (v *Vault) RestoreDue() time.Time {
	if v.Owed() == nil {
		return time.Time{}
	}
	return v.restoreAt
}

// RestoreNow stores the pending writes immediately.
func (v *Vault) RestoreNow() {
	v.restoreAt = time.Time{}
	v.Restore(time.Now())
}

// Restore stores the pending writes, if an attempt is due. It runs while no action is under
// way.
func (v *Vault) Restore(now time.Time) {
	if v.Owed() == nil || now.Before(v.restoreAt) {
		return
	}
	v.restoreAt = now.Add(restoreEvery)
	if err := v.Store.Restore(v.state(), v.keep); err == nil {
		v.log.Info("all that is in force is stored again", zap.Uint64("epoch", v.board.EpochNumber()))
	}
	v.ShowDurability()
}

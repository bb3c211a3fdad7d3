package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/topology"
)

// The codes of the warnings about the state directory.
const (
	StateNotDurable = "state-not-durable"
	BaselineLost    = "baseline-lost"
)

// restoreEvery is the interval between attempts to store pending writes.
const restoreEvery = 2 * time.Second

// Store is the state directory, with the writes that its disk has not accepted: it is full,
// read-only or failing, or has disappeared. Plans and tables do not wait for it. At any time only
// one action uses it, or the loop between actions. Requests read old plans.
type Store struct {
	Disk *store.Store

	log    *zap.Logger
	health *health.Tracker
	state  *Shared
	keep   int // epochs

	stored    *topology.Baseline // the last one stored
	lost      bool               // the stored one is lost, and the one in force is not stored
	restoreAt time.Time          // the time of the next attempt to store
	decisions store.Decisions
	release   func() error // releases the table file
}

// Open opens the state directory. Note files record the numbers given in two other places: next
// to the API's socket, which is not on a disk, and next to the table file, which may be on
// another disk.
func Open(cfg *config.Config, log *zap.Logger, b *Shared) (*Store, error) {
	release := func() error { return nil }
	if !cfg.Watches() { // otherwise it writes none
		lock, err := store.Take(cfg.OpenSM.LFTsFile+".lock", "table file "+cfg.OpenSM.LFTsFile)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			release = sync.OnceValue(lock.Close)
		}
	}
	opened, err := store.Open(cfg.StateDir, cfg.API.Socket+".numbers", cfg.OpenSM.LFTsFile+".numbers")
	s := &Store{Disk: opened, log: log, health: b.Health, state: b, keep: cfg.KeepEpochs, decisions: store.Decisions{}, release: release}
	if err != nil {
		return s, errors.Join(err, s.release())
	}
	return s, nil
}

// Close releases the state directory and the table file for other processes.
func (s *Store) Close() error { return errors.Join(s.Disk.Close(), s.release()) }

// Resume puts the stored state in force. damaged describes what could not be read.
//
// If a later plan than one stored was or may have been in force, the stored one may use cables that
// have died since. It is published only after verification, under a new number. The choice of a
// rollback stays.
func (s *Store) Resume() (damaged, err error) {
	base, lost := s.Disk.Baseline()
	gone := base == nil && lost != nil
	s.state.change(func(n *State) { n.Baseline = base })
	if s.lost = gone; lost == nil { // one read from the copy is stored with the next plan
		s.stored = base
	}
	if gone {
		s.health.Raise(BaselineLost, lost.Error()+"; the fabric as it is takes its place, in memory alone: bring the file back and restart forsd, or run forsctl baseline accept", time.Now())
		lost = nil
	}
	e, damagedEpochs := s.Disk.Epochs.Current()
	if e != nil && damagedEpochs == nil && (e.Epoch > s.Disk.Numbers.Passed() || e.RollbackOf != 0) {
		if err := s.state.PutEpoch(e); err != nil {
			return nil, err
		}
		if e.Epoch <= s.Disk.Numbers.Passed() {
			s.state.Plans.Withdraw() // readers do not see it before it has a new number
		}
	}
	onBase, damagedBase := s.Disk.Base()
	s.state.change(func(n *State) { n.LastBase = onBase })
	stored, damagedJobs := s.Disk.Jobs.All()
	jobs := make([]*Job, len(stored))
	for i, j := range stored {
		if j.Stale {
			j.Base = nil // the same holds for these plans
		}
		jobs[i] = NewJob(*j, time.Now())
	}
	s.state.change(func(n *State) { n.Jobs = jobs })
	for _, j := range jobs {
		if j.Stale || j.Epoch <= s.Disk.Numbers.Passed() {
			continue
		}
		if err := s.state.PutJob(j); err != nil {
			return nil, err
		}
	}
	s.state.jobWarnings()
	decisions, damagedDecisions := s.Disk.Decisions()
	if len(decisions) > 0 {
		s.decisions = decisions
	}
	s.ShowDurability()
	return errors.Join(lost, damagedEpochs, damagedBase, damagedJobs, damagedDecisions, s.Disk.Numbers.Broken()), nil
}

// Decisions returns the decisions about parts of the fabric, by the name of the package that
// made them.
func (s *Store) Decisions() store.Decisions { return s.decisions }

// Decision decodes the decisions of one package into out. If it has none, out is unchanged.
func (s *Store) Decision(name string, out any) error {
	text, there := s.decisions[name]
	if !there {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("what was decided about %s: %w", name, err)
	}
	return nil
}

// Decide stores the decisions of one package; null or an empty list removes them. If the disk
// fails, they are in force in memory.
func (s *Store) Decide(name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	all := maps.Clone(s.decisions)
	if all[name] = text; string(text) == "null" || string(text) == "[]" {
		delete(all, name)
	}
	all.Count()
	s.TakeDecisions(all)
	return nil
}

// TakeDecisions replaces and stores all decisions, such as those of another forsd.
func (s *Store) TakeDecisions(all store.Decisions) {
	if maps.EqualFunc(all, s.decisions, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return
	}
	s.decisions = store.Decisions{}
	maps.Copy(s.decisions, all)
	s.NotStored(s.OnDisk(func() error { return s.Disk.SaveDecisions(s.decisions) }))
}

// inForce returns the state in force, for storing.
func (s *Store) inForce() store.State {
	now := s.state.Now()
	out := store.State{Epoch: now.Epoch, Base: now.LastBase, Decisions: s.decisions}
	if !s.lost {
		out.Baseline = now.Baseline
	}
	for _, j := range now.Jobs {
		out.Jobs = append(out.Jobs, &j.Job)
	}
	return out
}

// KeepBaseline stores the baseline if necessary and possible.
func (s *Store) KeepBaseline() {
	if base := s.state.Now().Baseline; !s.lost && base != s.stored {
		s.NotStored(s.storeBaseline(base))
	}
}

func (s *Store) storeBaseline(base *topology.Baseline) error {
	err := s.Disk.SaveBaseline(base)
	if err == nil {
		s.stored = base
	}
	return err
}

// AcceptBaseline stores a baseline and puts it in force.
func (s *Store) AcceptBaseline(base *topology.Baseline) error {
	if err := s.storeBaseline(base); err != nil {
		return err
	}
	s.state.change(func(n *State) { n.Baseline = base })
	s.BaselineFound()
	return nil
}

// LookAtDisk detects that the state directory was replaced. It runs while no action is under
// way.
func (s *Store) LookAtDisk() {
	if !s.lost && s.stored != s.state.Now().Baseline {
		return // the next plan stores it
	}
	s.Disk.Look(s.inForce())
	s.ShowDurability()
}

// OnDisk runs save, unless other writes are pending: then the next restore stores everything.
func (s *Store) OnDisk(save func() error) error {
	if err := s.Disk.PendingErr(); err != nil {
		return err
	}
	return save()
}

// put encodes plans with the number n and saves them. If the disk fails, they are in force in
// memory, with the next number if n cannot be made safe.
func (s *Store) put(n uint64, encode func(n uint64) error, save func() error) error {
	err := encode(n)
	if err != nil {
		return err
	}
	if err = s.OnDisk(save); err == nil {
		return nil
	}
	s.NotStored(err)
	if err = s.Disk.Numbers.UseWithoutDisk(n); errors.Is(err, store.ErrNumber) {
		n = s.Disk.Numbers.Next()
		return errors.Join(encode(n), s.Disk.Numbers.UseWithoutDisk(n))
	}
	return err
}

// NotStored records a failed write.
func (s *Store) NotStored(err error) {
	if err != nil {
		s.log.Error("not stored, and in force from memory", zap.Error(err))
		s.ShowDurability()
	}
}

// ShowDurability warns while part of the state in force is not stored.
func (s *Store) ShowDurability() {
	if err := s.Disk.PendingErr(); err != nil {
		s.health.Raise(StateNotDurable, rights.Explain(err).Error()+"; plans and jobs are in force from memory until then, and are lost if forsd stops before", time.Now())
		return
	}
	s.health.Clear(StateNotDurable)
}

// BaselineFound ends the state in which the baseline is not stored.
func (s *Store) BaselineFound() {
	s.lost = false
	s.health.Clear(BaselineLost)
}

// RestoreDue returns the time of the next attempt to store pending writes; zero means never.
func (s *Store) RestoreDue() time.Time {
	if s.Disk.PendingErr() == nil {
		return time.Time{}
	}
	return s.restoreAt
}

// RestoreNow stores the pending writes immediately.
func (s *Store) RestoreNow() {
	s.restoreAt = time.Time{}
	s.Restore(time.Now())
}

// Restore stores the pending writes, if an attempt is due. It runs while no action is under
// way.
func (s *Store) Restore(now time.Time) {
	if s.Disk.PendingErr() == nil || now.Before(s.restoreAt) {
		return
	}
	s.restoreAt = now.Add(restoreEvery)
	if err := s.Disk.Restore(s.inForce(), s.keep); err == nil {
		s.log.Info("all that is in force is stored again", zap.Uint64("epoch", s.state.Now().EpochNumber()))
	}
	s.ShowDurability()
}

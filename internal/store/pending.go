package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file handles a state directory that cannot be written: the disk is full, read-only
// or failing, or the directory has vanished or was replaced.

// PendingErr returns why some state is not stored, or nil if all is. It is safe for concurrent
// use.
func (s *Store) PendingErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

func (s *Store) markPending(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = err
}

// markPendingOn records a method's error, if any, as pending.
func (s *Store) markPendingOn(err *error) {
	if *err != nil {
		s.markPending(*err)
	}
}

// here returns an error unless the state directory is still the one locked.
func (s *Store) here() error {
	if s.lock == nil {
		return fmt.Errorf("state directory %s cannot be opened", s.dir)
	}
	taken, err := s.lock.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(s.dir)
	if err != nil {
		return fmt.Errorf("the state directory has vanished: %w", err)
	}
	if !os.SameFile(taken, now) {
		return fmt.Errorf("state directory %s is another one than it was", s.dir)
	}
	return nil
}

// Look checks that the files of the state now exist, and records an error as pending if the
// state directory has vanished, was replaced or was emptied.
func (s *Store) Look(now State) {
	if s.PendingErr() != nil {
		return
	}
	paths := []string{}
	if now.Baseline != nil {
		paths = append(paths, filepath.Join(s.dir, baselineFile))
	}
	if now.Base != nil {
		paths = append(paths, filepath.Join(s.dir, planner.BaseBinaryFile))
	}
	if now.Epoch != nil {
		paths = append(paths, s.Epochs.path(now.Epoch.Epoch))
	}
	for _, j := range now.Jobs {
		paths = append(paths, s.Jobs.path(jobVersion{j.ID, j.Epoch}))
	}
	err := s.here()
	for _, path := range paths {
		if err == nil {
			_, err = os.Stat(path)
		}
	}
	if err != nil {
		s.markPending(err)
	}
}

// State is the state in force.
type State struct {
	Baseline  *topology.Baseline // nil if there is none or it must not be stored
	Epoch     *Epoch             // nil if there is none
	Base      *phasetable.View   // last published plan for base LIDs, nil if there is none
	Jobs      []*Job
	Decisions Decisions
}

// Restore stores the complete state; if it succeeds, nothing is pending. Anything else in the
// state directory, which may be a different one by now, is superseded.
func (s *Store) Restore(now State, keep int) error {
	err := s.restore(now, keep)
	s.markPending(err)
	return err
}

func (s *Store) restore(now State, keep int) error {
	if s.here() != nil {
		old := s.lock
		if err := s.enter(); err != nil {
			s.lock = old
			return err
		}
		if old != nil {
			_ = old.Close()
		}
		s.staged = nil
	}
	if err := s.create(); err != nil {
		return err
	}
	s.Numbers.last, s.Numbers.promised = max(s.Numbers.last, s.highest()), 0 // the promise may be lost
	if err := s.Numbers.promise(s.Numbers.Next()); err != nil {
		return err
	}
	if now.Baseline != nil {
		if err := s.SaveBaseline(now.Baseline); err != nil {
			return err
		}
	}
	if err := s.SaveDecisions(now.Decisions); err != nil {
		return err
	}
	if err := s.restoreEpoch(now.Epoch, keep); err != nil {
		return err
	}
	if now.Base != nil {
		if err := s.SaveBase(now.Base); err != nil {
			return err
		}
	}
	if err := s.restoreJobs(now.Jobs); err != nil {
		return err
	}
	if s.Numbers.last > s.highest() { // the plan with this number has ended or was never stored
		if err := s.saveLast(); err != nil {
			return err
		}
	}
	s.Numbers.clock = 0
	s.Numbers.write(note{s.Numbers.promised, s.Numbers.passed}) // a stored plan that may be outdated stays so
	return nil
}

// restoreEpoch stores the epoch in force unless it is stored already.
func (s *Store) restoreEpoch(e *Epoch, keep int) error {
	if e == nil {
		return nil
	}
	numbers := s.Epochs.kept()
	if kept, err := s.Epochs.Load(e.Epoch); err == nil && bytes.Equal(kept.Plan.Bytes(), e.Plan.Bytes()) && numbers[len(numbers)-1] == e.Epoch {
		return s.Sync(e, keep)
	}
	return s.ReplaceEpoch(e, keep)
}

// restoreJobs stores the jobs that are not stored and removes those that have ended.
func (s *Store) restoreJobs(jobs []*Job) error {
	for _, j := range jobs {
		if j.Stale {
			continue // its next plan replaces the damaged one
		}
		save := s.ReplaceJob
		later := slices.ContainsFunc(s.Jobs.versions(), func(v jobVersion) bool { return v.id == j.ID && v.epoch > j.Epoch })
		if kept, err := s.Jobs.Load(j.ID, j.Epoch); err == nil && !later && bytes.Equal(kept.Plan.Bytes(), j.Plan.Bytes()) {
			save = s.SaveLease
		}
		if err := save(j); err != nil {
			return err
		}
	}
	for _, v := range s.Jobs.versions() {
		if slices.ContainsFunc(jobs, func(j *Job) bool { return j.ID == v.id }) {
			continue
		}
		if err := s.RemoveJob(v.id); err != nil {
			return err
		}
	}
	return SyncPath(string(s.Jobs))
}

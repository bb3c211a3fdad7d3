package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// EpochInfo describes an epoch. It is stored as epoch.json next to the phase table.
type EpochInfo struct {
	Epoch       uint64    `json:"epoch"`
	PublishedAt time.Time `json:"published_at"`
	Fabric      string    `json:"fabric"`      // identity of the fabric that was planned for
	What        []string  `json:"what"`        // the causes, in words
	RollbackOf  uint64    `json:"rollback_of"` // the epoch repeated, 0 if this is not a rollback; kept while the fabric stays
	// PairsChanged counts the ordered pairs of servers whose destination LID differs from
	// the previous epoch's.
	PairsChanged int               `json:"pairs_changed"`
	Report       planner.Report    `json:"report"`
	Warnings     []planner.Warning `json:"warnings"` // the report's warnings about the plan itself, with their texts
}

// Epoch is a published plan.
type Epoch struct {
	EpochInfo
	Plan *phasetable.View // has the same number
}

const (
	epochInfo = "epoch.json"
	planFile  = planner.BinaryFile // of epochs and jobs
)

// Epochs is the path of the directory with one directory per epoch. Methods that only read
// may run concurrently with all others; they fail for an epoch that is being removed.
type Epochs string

// NewEpoch encodes t as an epoch with t's number. The rest of its EpochInfo is empty.
func NewEpoch(t *phasetable.Table) (*Epoch, error) {
	plan, err := phasetable.New(t)
	if err != nil {
		return nil, err
	}
	return &Epoch{EpochInfo: EpochInfo{Epoch: t.Epoch}, Plan: plan}, nil
}

// kept returns the numbers of the stored epochs, ascending.
func (dir Epochs) kept() []uint64 {
	entries, _ := os.ReadDir(string(dir))
	var out []uint64
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 64); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (dir Epochs) path(n uint64) string { return filepath.Join(string(dir), fmt.Sprintf("%010d", n)) }

// temp returns the path at which an epoch is written before it is renamed to its final
// path.
func (dir Epochs) temp(n uint64) string {
	return filepath.Join(string(dir), fmt.Sprintf("%s%d", tempPrefix, n))
}

// Stage writes an epoch's plan to a temporary path, from which Commit renames it. It can
// run before the plan is verified. It replaces the epoch staged before; Open removes an
// epoch that was never committed.
func (s *Store) Stage(e *Epoch) error {
	if err := s.here(); err != nil {
		return err
	}
	if s.staged != nil {
		_ = os.RemoveAll(s.Epochs.temp(s.staged.Epoch)) // on failure, Open removes it
		s.staged = nil
	}
	if err := writePlan(s.Epochs.temp(e.Epoch), e.Plan); err != nil {
		return err
	}
	s.staged = e
	return nil
}

// Commit puts e in force: its files are written and renamed into place, but not synced, so
// e survives a crash of the process and not of the machine. In the latter case its number
// is not used again, because numbers are promised durably first. The number must be greater
// than Last. If e was staged, its plan must not have changed since. If Commit fails, e is
// not stored; see UseWithoutDisk for its number. Sync completes it.
func (s *Store) Commit(e *Epoch) (err error) {
	defer s.markPendingOn(&err)
	info, err := json.MarshalIndent(e.EpochInfo, "", " ")
	if err != nil {
		return err
	}
	if err = s.here(); err != nil {
		return fmt.Errorf("save epoch %d: %w", e.Epoch, err)
	}
	if err = s.Numbers.promise(e.Epoch); err == nil && s.staged != e {
		err = s.Stage(e)
	}
	s.staged = nil
	temp := s.Epochs.temp(e.Epoch)
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, epochInfo), sealed.Seal(info), 0o644)
	}
	if err == nil {
		err = os.Rename(temp, s.Epochs.path(e.Epoch))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save epoch %d: %w", e.Epoch, err), os.RemoveAll(temp))
	}
	s.Numbers.last = e.Epoch
	return nil
}

// Sync syncs a committed epoch to disk, removes the oldest epochs beyond keep, and promises
// further numbers so that the next Commit does not wait for the disk.
func (s *Store) Sync(e *Epoch, keep int) (err error) {
	defer s.markPendingOn(&err)
	if err = syncPlan(s.Epochs.path(e.Epoch), epochInfo); err == nil {
		err = SyncPath(string(s.Epochs))
	}
	if err != nil {
		return fmt.Errorf("save epoch %d: %w", e.Epoch, err)
	}
	s.Epochs.prune(keep)
	return s.Numbers.promiseAfter(e.Epoch)
}

// save stores e durably and puts it in force. Its number must be greater than s.Numbers.last.
func (s *Store) save(e *Epoch, keep int) error {
	if err := s.Commit(e); err != nil {
		return err
	}
	return s.Sync(e, keep)
}

// ReplaceEpoch stores e durably and puts it in force, and removes all epochs with the same
// or a higher number first. A crash during the call may leave one of those or an older
// epoch in force. Older epochs are pruned as by Sync.
func (s *Store) ReplaceEpoch(e *Epoch, keep int) (err error) {
	defer s.markPendingOn(&err)
	for _, n := range s.Epochs.kept() {
		if n < e.Epoch {
			continue
		}
		if err = os.RemoveAll(s.Epochs.path(n)); err != nil {
			return err
		}
	}
	last := s.Numbers.last
	err = s.save(e, keep)
	s.Numbers.last = max(last, s.Numbers.last)
	return err
}

// prune removes the oldest epochs beyond keep, but never the last one.
func (dir Epochs) prune(keep int) {
	numbers := dir.kept()
	for len(numbers) > max(keep, 1) {
		// On failure, the next call removes it.
		_ = os.RemoveAll(dir.path(numbers[0]))
		numbers = numbers[1:]
	}
}

// List describes the stored epochs, ascending. Unreadable ones are left out.
func (dir Epochs) List() []EpochInfo {
	var out []EpochInfo
	for _, n := range dir.kept() {
		var info EpochInfo
		if sealed.ReadFile(filepath.Join(dir.path(n), epochInfo), &info) == nil {
			out = append(out, info)
		}
	}
	return out
}

// Load reads a stored epoch and checks it completely. The error distinguishes a
// missing epoch from a damaged one.
func (dir Epochs) Load(n uint64) (*Epoch, error) {
	e := &Epoch{}
	var err error
	if e.Plan, err = readPlan(dir.path(n), epochInfo, &e.EpochInfo); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it is not kept: forsctl epochs lists those that are")
	} else if err != nil {
		return nil, fmt.Errorf("epoch %d: %w", n, err)
	}
	if e.Epoch != n || e.Plan.Epoch() != n {
		return nil, fmt.Errorf("epoch %d: the files are those of epochs %d and %d", n, e.Epoch, e.Plan.Epoch())
	}
	return e, nil
}

// Current loads the epoch in force: the highest one that is intact, or nil. If damaged
// epochs were skipped, damaged describes them. Then a later epoch was in force, and the one
// returned may use cables that have died since: it must be verified before it is published.
func (dir Epochs) Current() (e *Epoch, damaged error) {
	numbers := dir.kept()
	slices.Reverse(numbers)
	for _, n := range numbers {
		e, err := dir.Load(n)
		if err == nil {
			return e, damaged
		}
		damaged = errors.Join(damaged, err)
	}
	return nil, damaged
}

// The last plan for base LIDs is stored so that it keeps its number over a restart.

// SaveBase stores a plan for base LIDs durably, in place of the previous one. After a crash
// during the call, one of the two is stored.
func (s *Store) SaveBase(plan *phasetable.View) (err error) {
	defer s.markPendingOn(&err)
	if err = s.here(); err == nil {
		err = s.saveGiven(plan.Epoch())
	}
	if err == nil {
		err = replaceFile(filepath.Join(s.dir, planner.BaseBinaryFile), plan.Bytes())
	}
	if err != nil {
		return fmt.Errorf("save base plan %d: %w", plan.Epoch(), err)
	}
	return nil
}

// Base returns the stored plan for base LIDs, or nil if there is none.
func (s *Store) Base() (*phasetable.View, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, planner.BaseBinaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return phasetable.Decode(data)
}

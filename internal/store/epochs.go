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

// EpochInfo is what is told of an epoch, as epoch.json has it beside the phase table.
type EpochInfo struct {
	Epoch       uint64    `json:"epoch"` // its number
	PublishedAt time.Time `json:"published_at"`
	Fabric      string    `json:"fabric"`      // what the daemon calls the fabric that it was planned for
	What        []string  `json:"what"`        // what led to it, in words
	RollbackOf  uint64    `json:"rollback_of"` // the epoch that it repeats, 0 for none; kept while the fabric stays
	// PairsChanged counts the ordered pairs of servers that it gives another destination
	// LID than the epoch before.
	PairsChanged int               `json:"pairs_changed"`
	Report       planner.Report    `json:"report"`
	Warnings     []planner.Warning `json:"warnings"` // those of the report that are the plan's own, with their texts
}

// Epoch is a published plan.
type Epoch struct {
	EpochInfo
	Plan *phasetable.View // of the same number
}

const (
	epochInfo = "epoch.json"
	planFile  = planner.BinaryFile // of an epoch and of a job
)

// epochs is the directory of the epochs, a directory each. What reads it may be called
// beside all else, and fails for an epoch that is removed meanwhile.
type epochs string

// NewEpoch is an epoch with nothing but its plan, encoded, and the number of that.
func NewEpoch(t *phasetable.Table) (*Epoch, error) {
	plan, err := phasetable.New(t)
	if err != nil {
		return nil, err
	}
	return &Epoch{EpochInfo: EpochInfo{Epoch: t.Epoch}, Plan: plan}, nil
}

// kept lists the numbers of the stored epochs, ascending.
func (dir epochs) kept() []uint64 {
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

func (dir epochs) path(n uint64) string { return filepath.Join(string(dir), fmt.Sprintf("%010d", n)) }

// temp is where an epoch is before it appears.
func (dir epochs) temp(n uint64) string {
	return filepath.Join(string(dir), fmt.Sprintf("%s%d", tempPrefix, n))
}

// Stage writes the plan of an epoch, out of sight, where Reveal finds it: that much
// need not wait for the plan's verification. What was staged before is dropped, and what
// is not revealed is removed at the next start.
func (s *Store) Stage(e *Epoch) error {
	if err := s.here(); err != nil {
		return err
	}
	if s.staged != nil {
		_ = os.RemoveAll(s.temp(s.staged.Epoch)) // what cannot be removed now is removed at the next start
		s.staged = nil
	}
	if err := writePlan(s.temp(e.Epoch), e.Plan); err != nil {
		return err
	}
	s.staged = e
	return nil
}

// Reveal puts e in force for all that open the store, as long as the machine runs:
// its files are written, and need not be on disk. Should they be lost with the
// machine, its number is not given again: it is among those promised. The number must
// be above Last, and the plan that which was staged, if e was. Where it fails, e is not
// in force for those who open the store: see Give. Flush follows.
func (s *Store) Reveal(e *Epoch) (err error) {
	defer s.oweWhere(&err)
	info, err := json.MarshalIndent(e.EpochInfo, "", " ")
	if err != nil {
		return err
	}
	if err = s.here(); err != nil {
		return fmt.Errorf("save epoch %d: %w", e.Epoch, err)
	}
	if err = s.promise(e.Epoch); err == nil && s.staged != e {
		err = s.Stage(e)
	}
	s.staged = nil
	temp := s.temp(e.Epoch)
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, epochInfo), sealed.Seal(info), 0o644)
	}
	if err == nil {
		err = os.Rename(temp, s.epochs.path(e.Epoch))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save epoch %d: %w", e.Epoch, err), os.RemoveAll(temp))
	}
	s.last = e.Epoch
	return nil
}

// Flush brings an epoch that was revealed to disk, removes the oldest epochs over keep,
// and promises further numbers, so that the next one need not wait for the disk.
func (s *Store) Flush(e *Epoch, keep int) (err error) {
	defer s.oweWhere(&err)
	if err = syncPlan(s.epochs.path(e.Epoch), epochInfo); err == nil {
		err = syncPath(string(s.epochs))
	}
	if err != nil {
		return fmt.Errorf("save epoch %d: %w", e.Epoch, err)
	}
	s.prune(keep)
	if err = s.promise(e.Epoch + 1); err == nil && s.noted.Given != 0 && s.noted.Given < e.Epoch {
		s.write(note{Promised: s.promised}) // no restart comes to a lower number now
	}
	return err
}

// save makes e durable and in force. Its number must be above s.last.
func (s *Store) save(e *Epoch, keep int) error {
	if err := s.Reveal(e); err != nil {
		return err
	}
	return s.Flush(e, keep)
}

// ReplaceEpoch makes e durable and in force, whatever is stored under its number and
// higher ones: they are removed first, so that a crash meanwhile may leave one of them
// in force, or an older epoch. Of the epochs before e it leaves what Flush does.
func (s *Store) ReplaceEpoch(e *Epoch, keep int) (err error) {
	defer s.oweWhere(&err)
	for _, n := range s.epochs.kept() {
		if n < e.Epoch {
			continue
		}
		if err = os.RemoveAll(s.epochs.path(n)); err != nil {
			return err
		}
	}
	last := s.last
	err = s.save(e, keep)
	s.last = max(last, s.last)
	return err
}

// prune removes the oldest epochs over keep.
func (dir epochs) prune(keep int) {
	numbers := dir.kept()
	for len(numbers) > max(keep, 1) {
		// What cannot be removed now is removed next time.
		_ = os.RemoveAll(dir.path(numbers[0]))
		numbers = numbers[1:]
	}
}

// Epochs lists what is told of the epochs that are kept, ascending, without those that
// cannot be read.
func (dir epochs) Epochs() []EpochInfo {
	var out []EpochInfo
	for _, n := range dir.kept() {
		var info EpochInfo
		if sealed.ReadFile(filepath.Join(dir.path(n), epochInfo), &info) == nil {
			out = append(out, info)
		}
	}
	return out
}

// LoadEpoch reads a stored epoch and checks it whole. The error says so where it is not
// kept, and what is damaged where it is.
func (dir epochs) LoadEpoch(n uint64) (*Epoch, error) {
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

// Current loads the epoch in force: the highest one that is whole. It is nil
// when there is none; damaged says what was skipped. A later one was in force then, and
// this one may use what has died since: it is not to be handed out unverified.
func (dir epochs) Current() (e *Epoch, damaged error) {
	numbers := dir.kept()
	slices.Reverse(numbers)
	for _, n := range numbers {
		e, err := dir.LoadEpoch(n)
		if err == nil {
			return e, damaged
		}
		damaged = errors.Join(damaged, err)
	}
	return nil, damaged
}

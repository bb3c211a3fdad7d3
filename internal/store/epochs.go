package store

import (
	"bytes"
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
	Epoch       uint64            `json:"epoch"` // its number
	PublishedAt time.Time         `json:"published_at"`
	Fabric      string            `json:"fabric"`      // what the daemon calls the fabric that it was planned for
	What        []string          `json:"what"`        // what led to it, in words
	RollbackOf  uint64            `json:"rollback_of"` // the epoch that it repeats, 0 for none; kept while the fabric stays
	Report      planner.Report    `json:"report"`
	Warnings    []planner.Warning `json:"warnings"` // those of the report that are the plan's own, with their texts
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

// NewEpoch is an epoch with nothing but its plan, encoded, and the number of that.
func NewEpoch(t *phasetable.Table) (*Epoch, error) {
	plan, err := phasetable.New(t)
	if err != nil {
		return nil, err
	}
	return &Epoch{EpochInfo: EpochInfo{Epoch: t.Epoch}, Plan: plan}, nil
}

// numbers lists the stored epochs, ascending.
func (s *Store) numbers() []uint64 {
	entries, _ := os.ReadDir(filepath.Join(s.dir, epochsDir))
	var out []uint64
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 64); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Store) epochPath(n uint64) string {
	return filepath.Join(s.dir, epochsDir, fmt.Sprintf("%010d", n))
}

// temp is where an epoch is before it appears.
func (s *Store) temp(n uint64) string {
	return filepath.Join(s.dir, epochsDir, fmt.Sprintf("%s%d", tempPrefix, n))
}

// Stage writes the plan of an epoch, out of sight, where Reveal finds it: that much
// need not wait for the plan's verification. What was staged before is dropped, and what
// is not revealed is removed at the next start.
func (s *Store) Stage(e *Epoch) error {
	if err := s.here(); err != nil {
		return err
	}
	temp := s.temp(e.Epoch)
	if s.staged != nil {
		_ = os.RemoveAll(s.temp(s.staged.Epoch)) // what cannot be removed now is removed at the next start
		s.staged = nil
	}
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, planFile), e.Plan.Bytes(), 0o644); err != nil {
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
		err = os.Rename(temp, s.epochPath(e.Epoch))
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
	dir := s.epochPath(e.Epoch)
	for _, path := range []string{filepath.Join(dir, planFile), filepath.Join(dir, epochInfo), dir, filepath.Join(s.dir, epochsDir)} {
		if err = syncPath(path); err != nil {
			return fmt.Errorf("save epoch %d: %w", e.Epoch, err)
		}
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
func (s *Store) ReplaceEpoch(e *Epoch, keep int) error {
	for _, n := range s.numbers() {
		if n < e.Epoch {
			continue
		}
		if err := os.RemoveAll(s.epochPath(n)); err != nil {
			return err
		}
	}
	last := s.last
	err := s.save(e, keep)
	s.last = max(last, s.last)
	return err
}

// prune removes the oldest epochs over keep.
func (s *Store) prune(keep int) {
	numbers := s.numbers()
	for len(numbers) > max(keep, 1) {
		// What cannot be removed now is removed next time.
		_ = os.RemoveAll(s.epochPath(numbers[0]))
		numbers = numbers[1:]
	}
}

// Epochs lists what is told of the epochs that are kept, ascending, without those that
// cannot be read.
func (s *Store) Epochs() []EpochInfo {
	var out []EpochInfo
	for _, n := range s.numbers() {
		if info, err := s.info(n); err == nil {
			out = append(out, *info)
		}
	}
	return out
}

// info reads what is kept beside an epoch's plan.
func (s *Store) info(n uint64) (*EpochInfo, error) {
	data, err := os.ReadFile(filepath.Join(s.epochPath(n), epochInfo))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it is not kept: forsctl epochs lists those that are")
	} else if err != nil {
		return nil, err
	}
	info := &EpochInfo{}
	if err := decode(data, info); err != nil {
		return nil, fmt.Errorf("epoch %d: %s: %w", n, epochInfo, err)
	}
	return info, nil
}

// decode reads a JSON file that was sealed, or written before files were. A member that
// nobody knows is damage.
func decode(data []byte, into any) error {
	data, err := sealed.Open(data)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("there is text after its end")
	}
	return nil
}

// LoadEpoch reads a stored epoch and checks it whole. The error says so where it is not
// kept, and what is damaged where it is.
func (s *Store) LoadEpoch(n uint64) (*Epoch, error) {
	info, err := s.info(n)
	if err != nil {
		return nil, err
	}
	e := &Epoch{EpochInfo: *info}
	data, err := os.ReadFile(filepath.Join(s.epochPath(n), planFile))
	if err != nil {
		return nil, err
	}
	if e.Plan, err = phasetable.Decode(data); err != nil {
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
func (s *Store) Current() (e *Epoch, damaged error) {
	numbers := s.numbers()
	slices.Reverse(numbers)
	for _, n := range numbers {
		e, err := s.LoadEpoch(n)
		if err == nil {
			return e, damaged
		}
		damaged = errors.Join(damaged, err)
	}
	return nil, damaged
}

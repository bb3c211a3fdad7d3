package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"forsd/phasetable"
	"forsd/planner"
	"forsd/topology"
)

// epochFile is what the store keeps beside an epoch's phase table.
type epochFile struct {
	Epoch       uint64            `json:"epoch"`
	PublishedAt time.Time         `json:"published_at"`
	Fabric      string            `json:"fabric"`      // the controller's snapshot ID
	What        []string          `json:"what"`        // what led to it, in words
	RollbackOf  uint64            `json:"rollback_of"` // the epoch that it repeats; kept while the fabric stays
	Report      planner.Report    `json:"report"`
	Warnings    []planner.Warning `json:"warnings"` // those of the report that are the plan's own, with their texts
}

// epoch is a published plan.
type epoch struct {
	epochFile
	table []byte           // phases.bin
	view  *phasetable.View // of table
}

// store keeps the epochs, the jobs and the baseline. An epoch is a directory that
// appears by a rename when its files are written: the highest number is the epoch in
// force, and a crash at any instruction leaves either the old or the new one. Its
// files are flushed afterwards; see promise for what follows from that.
type store struct {
	dir      string // the state directory
	lock     *os.File
	last     uint64 // highest number known to be given to an epoch or a job's plan, usable or not
	passed   uint64 // highest number that may have been given before the machine failed, 0 if it has not
	promised uint64 // highest number that may be given before more are promised
	broken   error  // why the promise that is stored cannot be read
	staged   *epoch // whose table is written, out of sight; nil for none
}

const (
	epochsDir    = "epochs"
	epochMeta    = "epoch.json"
	epochTable   = planner.BinaryFile
	baselineFile = "baseline.json"
	tempPrefix   = ".new-"
)

// openStore creates the directories, takes the state directory for this process
// alone until close, removes what a crash left half done, and finds the highest
// epoch number.
func openStore(dir string) (*store, error) {
	s := &store{dir: dir}
	for _, sub := range []string{epochsDir, jobsDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("create state directory: %w", err)
		}
	}
	var err error
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	if err := s.clean(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.last, _ = s.lastOfJobs() // loadJobs says what is wrong with it
	for _, n := range s.numbers() {
		s.last = max(s.last, n)
	}
	s.broken = s.takePromise()
	return s, nil
}

// lockPatience is how long the lock of a process that was killed may stay: a
// child that it was just starting holds it until it becomes another program.
const lockPatience = 3 * time.Second

// lockDir takes a directory for this process alone. The kernel frees it when
// the file is closed or the process ends in any way.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	take := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	err = take()
	for start := time.Now(); errors.Is(err, syscall.EWOULDBLOCK) && time.Since(start) < lockPatience; err = take() {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another process works with it: is forsd running already?")
		}
		return nil, errors.Join(fmt.Errorf("lock state directory %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// close lets another process have the directory.
func (s *store) close() error { return s.lock.Close() }

// clean removes what a crash left half done.
func (s *store) clean() error {
	for _, sub := range []string{epochsDir, jobsDir} {
		entries, err := os.ReadDir(filepath.Join(s.dir, sub))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(s.dir, sub, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers lists the stored epochs, ascending.
func (s *store) numbers() []uint64 {
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

func (s *store) path(n uint64) string {
	return filepath.Join(s.dir, epochsDir, fmt.Sprintf("%010d", n))
}

// temp is where an epoch is before it appears.
func (s *store) temp(n uint64) string {
	return filepath.Join(s.dir, epochsDir, fmt.Sprintf("%s%d", tempPrefix, n))
}

// stage writes the table of an epoch, out of sight, where appear finds it: that much
// need not wait for the plan's verification. What was staged before is dropped.
func (s *store) stage(e *epoch) error {
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
	if err := os.WriteFile(filepath.Join(temp, epochTable), e.table, 0o644); err != nil {
		return err
	}
	s.staged = e
	return nil
}

// next is the number for the next epoch, or plan of a job.
func (s *store) next() uint64 { return max(s.last, s.passed) + 1 }

// save makes e durable and in force. Its number must be above s.last.
func (s *store) save(e *epoch, keep int) error {
	if err := s.appear(e); err != nil {
		return err
	}
	return s.settle(e, keep)
}

// appear puts e in force for whoever opens the store, as long as the machine runs:
// its files are written, and need not be on disk. Should they be lost with the
// machine, its number is not given again: it is among those promised. It must be above
// s.last; settle follows.
func (s *store) appear(e *epoch) error {
	meta, err := json.MarshalIndent(e.epochFile, "", " ")
	if err != nil {
		return err
	}
	if err = s.promise(e.Epoch); err == nil && s.staged != e {
		err = s.stage(e)
	}
	s.staged = nil
	temp := s.temp(e.Epoch)
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, epochMeta), append(meta, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(temp, s.path(e.Epoch))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save epoch %d: %w", e.Epoch, err), os.RemoveAll(temp))
	}
	s.last = e.Epoch
	return nil
}

// settle brings an epoch that has appeared to disk, removes the oldest over keep, and
// promises further numbers.
func (s *store) settle(e *epoch, keep int) error {
	dir := s.path(e.Epoch)
	for _, path := range []string{filepath.Join(dir, epochTable), filepath.Join(dir, epochMeta), dir, filepath.Join(s.dir, epochsDir)} {
		if err := syncPath(path); err != nil {
			return fmt.Errorf("save epoch %d: %w", e.Epoch, err)
		}
	}
	s.prune(keep)
	return s.promise(e.Epoch + 1)
}

// prune removes the oldest epochs over keep.
func (s *store) prune(keep int) {
	numbers := s.numbers()
	for len(numbers) > max(keep, 1) {
		// What cannot be removed now is removed next time.
		_ = os.RemoveAll(s.path(numbers[0]))
		numbers = numbers[1:]
	}
}

// meta reads what is kept beside an epoch's table.
func (s *store) meta(n uint64) (*epochFile, error) {
	data, err := os.ReadFile(filepath.Join(s.path(n), epochMeta))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it is not kept: forsctl epochs lists those that are")
	} else if err != nil {
		return nil, err
	}
	m := &epochFile{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("epoch %d: %s: %w", n, epochMeta, err)
	}
	return m, nil
}

// load reads a stored epoch and checks it whole.
func (s *store) load(n uint64) (*epoch, error) {
	meta, err := s.meta(n)
	if err != nil {
		return nil, err
	}
	e := &epoch{epochFile: *meta}
	if e.table, err = os.ReadFile(filepath.Join(s.path(n), epochTable)); err != nil {
		return nil, err
	}
	if e.view, err = phasetable.Decode(e.table); err != nil {
		return nil, fmt.Errorf("epoch %d: %w", n, err)
	}
	if e.Epoch != n || e.view.Epoch() != n {
		return nil, fmt.Errorf("epoch %d: the files are those of epochs %d and %d", n, e.Epoch, e.view.Epoch())
	}
	return e, nil
}

// current loads the epoch in force: the highest one that is whole. It is nil
// when there is none; damaged says what was skipped.
func (s *store) current() (e *epoch, damaged error) {
	numbers := s.numbers()
	slices.Reverse(numbers)
	for _, n := range numbers {
		e, err := s.load(n)
		if err == nil {
			return e, damaged
		}
		damaged = errors.Join(damaged, err)
	}
	return nil, damaged
}

// baseline reads the stored baseline, nil when there is none yet.
func (s *store) baseline() (*topology.Baseline, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, baselineFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	b, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, baselineFile), err)
	}
	return b, nil
}

// saveBaseline makes the baseline durable.
func (s *store) saveBaseline(b *topology.Baseline) error {
	path := filepath.Join(s.dir, baselineFile)
	if err := renameio.WriteFile(path, b.Encode(), 0o644); err != nil {
		return fmt.Errorf("save baseline: %w", err)
	}
	return syncDir(s.dir)
}

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error { return syncPath(path) }

// syncPath brings a file or a directory to disk.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

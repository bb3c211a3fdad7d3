// Package store keeps what forsd must not lose: the epochs that it has published, the
// jobs, the baseline, and which numbers were given.
//
// An epoch, and each plan of a job, is a directory of two files, the phase table and
// what is told of it, which is written under a temporary name and appears by a rename.
// The highest number that is whole is in force: there is no pointer that could be torn,
// and a process that is killed at any instruction leaves either the old plan or the new
// one. An epoch counts before the disk has it, for ranks need not wait for that; a
// promise of numbers sees to it that one which is lost with the machine leaves its
// number to no other. All else is on disk when the method that stores it returns.
//
// Nobody waits for a disk that does not take it: what could not be stored is in force from
// memory, under a number that Give makes safe, and Restore stores it all when the disk is
// back. Owed says what is wrong meanwhile.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/topology"
)

// Store is a state directory in use. One goroutine at a time calls its methods; only
// Epochs, LoadEpoch and LoadJob, which do nothing but read files, may be called beside
// them, and fail for a plan that is removed meanwhile.
type Store struct {
	dir      string   // the state directory
	beside   []string // files outside of it that tell which numbers were given
	lock     *os.File // nil where the directory cannot be opened
	last     uint64   // highest number known to be given to an epoch or a job's plan, usable or not
	passed   uint64   // highest number that may have been given before the machine failed, 0 if it has not
	promised uint64   // highest number that may be given before more are promised
	broken   error    // why what is stored of numbers cannot be read
	staged   *Epoch   // whose table is written, out of sight; nil for none
	clock    uint64   // from which time in milliseconds on that is the next number; 0 where numbers count up
	noted    note     // what the files beside say

	mu   sync.Mutex // guards what follows
	owed error      // why not all is stored; nil where it is
}

const (
	epochsDir    = "epochs"
	jobsDir      = "jobs"
	baselineFile = "baseline.json"
	baselineCopy = "baseline.copy.json" // of the same content
	tempPrefix   = ".new-"
)

// Open creates the state directory where there is none, takes it for this process alone
// until Close, removes what a crash left half done, and finds the highest number that
// was given. It fails where another process has the directory. One that cannot be used
// leaves a store that keeps nothing; Owed says why. The files beside it, on other disks at
// best, tell which numbers were given where the directory cannot. Damaged plans are the
// business of those who load them.
func Open(dir string, beside ...string) (*Store, error) {
	s := &Store{dir: dir, beside: beside}
	if err := s.enter(); errors.Is(err, errTaken) {
		return nil, err
	} else if err != nil {
		s.owe(err)
		s.clock = milliseconds()
	}
	s.last = s.highest()
	s.broken = s.takePromise()
	s.takeNotes()
	return s, nil
}

// enter creates the state directory where there is none, and takes it.
func (s *Store) enter() error {
	err := s.create()
	if err != nil {
		return fmt.Errorf("create state directory: %w", err)
	}
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	s.clean()
	return nil
}

func (s *Store) create() error {
	return errors.Join(os.MkdirAll(filepath.Join(s.dir, epochsDir), 0o755), os.MkdirAll(filepath.Join(s.dir, jobsDir), 0o755))
}

// highest is the highest number that is stored.
func (s *Store) highest() uint64 {
	n, _ := s.lastOfJobs() // Jobs says what is wrong with it
	for _, epoch := range s.numbers() {
		n = max(n, epoch)
	}
	return n
}

// errTaken says that another process has the state directory.
var errTaken = errors.New("another process works with it: is forsd running already?")

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
			err = errTaken
		}
		return nil, errors.Join(fmt.Errorf("lock state directory %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Close lets another process have the directory.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// clean removes what a crash left half done. What cannot be removed now is removed at the
// next start.
func (s *Store) clean() {
	for _, sub := range []string{epochsDir, jobsDir} {
		entries, _ := os.ReadDir(filepath.Join(s.dir, sub))
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), tempPrefix) {
				_ = os.RemoveAll(filepath.Join(s.dir, sub, e.Name()))
			}
		}
	}
}

// Baseline reads the stored baseline, or its copy where that is damaged or lost, of which
// damaged tells. It is nil where there is neither; without damage there was none yet.
func (s *Store) Baseline() (b *topology.Baseline, damaged error) {
	b, err := s.readBaseline(baselineFile)
	if err == nil {
		s.copyBaseline(b)
		return b, nil
	}
	lost := errors.Is(err, fs.ErrNotExist)
	if b, _ := s.readBaseline(baselineCopy); b != nil {
		return b, fmt.Errorf("%w; its copy, %s, is used in its place", err, baselineCopy)
	}
	if lost && len(s.numbers()) == 0 {
		return nil, nil
	}
	return nil, err
}

// copyBaseline makes a copy of the baseline where there is another one, or none: older
// versions made none, and the file may have been put there by hand. Without it nothing else
// is amiss.
func (s *Store) copyBaseline(b *topology.Baseline) {
	path, text := filepath.Join(s.dir, baselineCopy), sealed.Seal(b.Encode())
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
		_ = renameio.WriteFile(path, text, 0o644)
	}
}

// readBaseline reads a file with the baseline. The error names it.
func (s *Store) readBaseline(name string) (*topology.Baseline, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	b, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, name), err)
	}
	return b, nil
}

// SaveBaseline makes the baseline durable. A crash before it returns leaves the one
// before, or this one.
func (s *Store) SaveBaseline(b *topology.Baseline) (err error) {
	defer s.oweWhere(&err)
	if err = s.here(); err != nil {
		return err
	}
	text := sealed.Seal(b.Encode())
	for _, name := range []string{baselineFile, baselineCopy} {
		if err = renameio.WriteFile(filepath.Join(s.dir, name), text, 0o644); err != nil {
			return fmt.Errorf("save baseline: %w", err)
		}
		if err = syncPath(s.dir); err != nil {
			return err
		}
	}
	return nil
}

// writeDurably makes a file that is not there yet, on disk when it returns. Its name is
// not before its directory is synced.
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

// syncPath brings a file or a directory to disk.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

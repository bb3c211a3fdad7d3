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
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/phasetable"
)

// Store is a state directory in use. One goroutine at a time calls its methods; only
// Epochs, LoadEpoch and LoadJob, which do nothing but read files, may be called beside
// them, and fail for a plan that is removed meanwhile.
type Store struct {
	numbers
	epochs
	jobs
	lock   *os.File // of the directory; nil where it cannot be opened
	staged *Epoch   // whose table is written, out of sight; nil for none

	mu   sync.Mutex // guards what follows
	owed error      // why not all is stored; nil where it is
}

// tempPrefix begins the names of what is not in force yet, or no longer.
const tempPrefix = ".new-"

// Open creates the state directory where there is none, takes it for this process alone
// until Close, removes what a crash left half done, and finds the highest number that
// was given. It fails where another process has the directory. One that cannot be used
// leaves a store that keeps nothing; Owed says why. The files beside it, on other disks at
// best, tell which numbers were given where the directory cannot. Damaged plans are the
// business of those who load them.
func Open(dir string, beside ...string) (*Store, error) {
	s := &Store{
		numbers: numbers{dir: dir, beside: beside},
		epochs:  epochs(filepath.Join(dir, "epochs")), jobs: jobs(filepath.Join(dir, "jobs")),
	}
	if err := s.enter(); errors.Is(err, errTaken) {
		return nil, err
	} else if err != nil {
		s.owe(err)
		s.clock = milliseconds()
	}
	s.last = s.highest()
	s.others = s.last
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
	return errors.Join(os.MkdirAll(string(s.epochs), 0o755), os.MkdirAll(string(s.jobs), 0o755))
}

// highest is the highest number that is stored.
func (s *Store) highest() uint64 {
	n, _ := s.jobs.lastGiven() // Jobs says what is wrong with it
	for _, epoch := range s.epochs.kept() {
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
	if err := take(f, "state directory "+dir); err != nil {
		return nil, err
	}
	return f, nil
}

// Take takes a file for this process alone, until it is closed, and makes it where there is
// none. Where that cannot be, it is nil, and no error: an error says that another process
// has it.
func Take(path, what string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return nil, nil
	}
	if err := take(f, what); errors.Is(err, errTaken) {
		return nil, err
	} else if err != nil {
		return nil, nil
	}
	return f, nil
}

// take locks a file, or closes it.
func take(f *os.File, what string) error {
	try := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	err := try()
	for start := time.Now(); errors.Is(err, syscall.EWOULDBLOCK) && time.Since(start) < lockPatience; err = try() {
		time.Sleep(20 * time.Millisecond)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errTaken
	}
	return errors.Join(fmt.Errorf("lock %s: %w", what, err), f.Close())
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
	for _, dir := range []string{string(s.epochs), string(s.jobs)} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), tempPrefix) {
				_ = os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// writePlan makes a directory with a plan, of which more is told in another file.
func writePlan(dir string, plan *phasetable.View) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, planFile), plan.Bytes(), 0o644)
}

// syncPlan brings a directory with a plan to disk.
func syncPlan(dir, info string) error {
	for _, path := range []string{filepath.Join(dir, planFile), filepath.Join(dir, info), dir} {
		if err := syncPath(path); err != nil {
			return err
		}
	}
	return nil
}

// readPlan reads what is told of a plan, and the plan.
func readPlan(dir, name string, info any) (*phasetable.View, error) {
	if err := sealed.ReadFile(filepath.Join(dir, name), info); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return nil, err
	}
	return phasetable.Decode(data)
}

// syncPath brings a file or a directory to disk.
var syncPath = func(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

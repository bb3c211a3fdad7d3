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
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/topology"
)

// Store is a state directory in use. One goroutine at a time calls its methods; only
// Epochs, LoadEpoch and LoadJob, which do nothing but read files, may be called beside
// them, and fail for a plan that is removed meanwhile.
type Store struct {
	dir      string // the state directory
	lock     *os.File
	last     uint64 // highest number known to be given to an epoch or a job's plan, usable or not
	passed   uint64 // highest number that may have been given before the machine failed, 0 if it has not
	promised uint64 // highest number that may be given before more are promised
	broken   error  // why the promise that is stored cannot be read
	staged   *Epoch // whose table is written, out of sight; nil for none
}

const (
	epochsDir    = "epochs"
	jobsDir      = "jobs"
	baselineFile = "baseline.json"
	tempPrefix   = ".new-"
)

// Open creates the state directory where there is none, takes it for this process alone
// until Close, removes what a crash left half done, and finds the highest number that
// was given. It fails where another process has the directory, or where it cannot be
// written; damaged plans are the business of those who load them.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
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
		return nil, errors.Join(err, s.Close())
	}
	s.last, _ = s.lastOfJobs() // Jobs says what is wrong with it
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

// Close lets another process have the directory.
func (s *Store) Close() error { return s.lock.Close() }

// clean removes what a crash left half done.
func (s *Store) clean() error {
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

// Baseline reads the stored baseline, nil when there is none yet. The error names the
// file.
func (s *Store) Baseline() (*topology.Baseline, error) {
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

// SaveBaseline makes the baseline durable. A crash before it returns leaves the one
// before, or this one.
func (s *Store) SaveBaseline(b *topology.Baseline) error {
	path := filepath.Join(s.dir, baselineFile)
	if err := renameio.WriteFile(path, b.Encode(), 0o644); err != nil {
		return fmt.Errorf("save baseline: %w", err)
	}
	return syncPath(s.dir)
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

// Package store keeps the persistent state of forsd: published epochs, jobs, the baseline,
// operators' decisions, and the numbers given to plans.
//
// Each epoch and each plan of a job is a directory with two files, the phase table and its
// description. It is written under a temporary name and renamed. The highest number that is
// intact is in force, without a pointer that could be torn, and a process killed at any
// instruction leaves the old plan or the new one. A plan is in force before it is synced,
// because ranks do not wait for the disk; numbers are promised durably in advance, so that
// the number of a plan lost with the machine is not used again. Everything else, with plans for
// base LIDs, is on disk when the method that stores it returns.
//
// A failing disk delays no plan: what could not be stored is in force from memory, under a
// number recorded by UseWithoutDisk, and Restore stores it when the disk works again. Until then
// PendingErr returns the error.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/phasetable"
)

// Store is an open state directory. Its methods must not be called concurrently, except
// PendingErr and the methods that only read files: List and Load of Epochs, and Load of Jobs. The
// latter fail for a plan that is being removed.
type Store struct {
	Numbers Numbers
	Epochs  Epochs
	Jobs    Jobs

	dir    string
	lock   *os.File // of the directory; nil if it cannot be opened
	staged *Epoch   // its table is written at a temporary path; nil if none

	mu      sync.Mutex // guards the field below
	pending error      // why some state is not stored; nil if all is
}

// tempPrefix marks directories that are not in force: incomplete or being removed.
const tempPrefix = ".new-"

// Open opens the state directory, creating it if necessary, and locks it until Close. It
// removes incomplete files of a crash and finds the highest number given. It fails only if
// another process holds the lock. If the directory cannot be used, the store keeps nothing
// and PendingErr says why. The note files, preferably on other disks, record the numbers given in
// case the directory is lost. Damaged plans are reported by the methods that load them.
func Open(dir string, beside ...string) (*Store, error) {
	s := &Store{dir: dir, Numbers: Numbers{dir: dir, beside: beside}, Epochs: Epochs(filepath.Join(dir, "epochs")), Jobs: Jobs(filepath.Join(dir, "jobs"))}
	if err := s.enter(); errors.Is(err, errTaken) {
		return nil, err
	} else if err != nil {
		s.markPending(err)
		s.Numbers.clock = milliseconds()
	}
	s.Numbers.last = s.highest()
	s.Numbers.others = s.Numbers.last
	s.Numbers.broken = s.Numbers.readPromise()
	s.Numbers.readSideFiles()
	return s, nil
}

// enter creates the state directory if necessary and locks it.
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
	return errors.Join(os.MkdirAll(string(s.Epochs), 0o755), os.MkdirAll(string(s.Jobs), 0o755))
}

// highest returns the highest number stored.
func (s *Store) highest() uint64 {
	n, _ := s.Jobs.lastGiven() // All reports the error
	for _, epoch := range s.Epochs.kept() {
		n = max(n, epoch)
	}
	return n
}

// errTaken means that another process has the lock.
var errTaken = errors.New("another process works with it: is forsd running already?")

// lockPatience is how long the lock of a killed process may remain: a child that it was
// starting holds it until exec.
const lockPatience = 3 * time.Second

// lockDir locks a directory for this process. The kernel releases the lock when the file is
// closed or the process ends.
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

// Take locks the file at path, creating it if necessary, until it is closed. It returns an
// error only if another process holds the lock. If the file cannot be opened or locked for
// any other reason, both results are nil.
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

// take locks f, or closes it on failure.
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

// Close releases the lock on the directory.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// clean removes the incomplete files of a crash. What cannot be removed is tried again at
// the next start.
func (s *Store) clean() {
	for _, dir := range []string{string(s.Epochs), string(s.Jobs)} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), tempPrefix) {
				_ = os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// writePlan creates a directory with a plan. The caller adds its description.
func writePlan(dir string, plan *phasetable.View) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, planFile), plan.Bytes(), 0o644)
}

// syncPlan syncs a directory with a plan and its files.
func syncPlan(dir, info string) error {
	for _, path := range []string{filepath.Join(dir, planFile), filepath.Join(dir, info), dir} {
		if err := SyncPath(path); err != nil {
			return err
		}
	}
	return nil
}

// readPlan reads a plan and its description, which it decodes into info.
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

// replaceFile replaces a file durably.
func replaceFile(path string, text []byte) error {
	if err := renameio.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return SyncPath(filepath.Dir(path))
}

// SyncPath syncs a file or a directory to disk. Tests of crashes replace it.
var SyncPath = func(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Decisions are operators' decisions about parts of the fabric, such as drains. Keys name
// the package that decides; values are JSON that only that package reads.
type Decisions map[string]json.RawMessage

// decisionsSerial is the key of the counter that determines the later of two sets.
const decisionsSerial = "serial"

// Serial returns the number of decisions made up to these.
func (d Decisions) Serial() (n uint64) {
	_ = json.Unmarshal(d[decisionsSerial], &n) // sets of older versions have no serial and sort first
	return n
}

// Count increments the serial.
func (d Decisions) Count() { d[decisionsSerial] = strconv.AppendUint(nil, d.Serial()+1, 10) }

const decisionsFile = "decisions.json"

// Decisions reads the stored decisions, nil if none are stored.
func (s *Store) Decisions() (Decisions, error) {
	var out Decisions
	if err := sealed.ReadFile(filepath.Join(s.dir, decisionsFile), &out); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for name, text := range out { // undo the indentation of SaveDecisions
		var plain bytes.Buffer
		if err := json.Compact(&plain, text); err != nil {
			return nil, err
		}
		out[name] = plain.Bytes()
	}
	return out, nil
}

// SaveDecisions stores the decisions durably. An empty set removes the file.
func (s *Store) SaveDecisions(d Decisions) (err error) {
	defer s.markPendingOn(&err)
	if err := s.here(); err != nil {
		return err
	}
	path := filepath.Join(s.dir, decisionsFile)
	if len(d) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return SyncPath(s.dir)
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	if err := replaceFile(path, sealed.Seal(text)); err != nil {
		return fmt.Errorf("save %s: %w", decisionsFile, err)
	}
	return nil
}

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A plan is published before it is synced. If the machine then crashes, the plan may be
// lost, and its number must not be given to another plan: ranks would take the two for one.
// So ranges of numbers are promised durably in advance, and all promised numbers are
// skipped after a reboot. The plan then in force, perhaps the one before the lost one, must
// be published again under a higher number: ranks may have the lost plan, and cables that
// the older one uses may have died since.

// Epochs, plans of jobs and plans for base LIDs share one sequence of numbers. An unchanged
// plan keeps its number if that is greater than Passed. Any other plan takes the number
// After the plan that it is published with, or the Next one.

// Numbers records which numbers were given to plans and which may have been.
type Numbers struct {
	dir      string   // state directory
	beside   []string // note files outside dir that record numbers given
	last     uint64   // highest number known to be given, whether its plan is usable or not
	others   uint64   // highest number possibly given before this process started, or by another forsd
	passed   uint64   // highest number possibly given before the machine crashed, 0 if it has not
	lost     uint64   // highest number possibly given from memory by an earlier process, 0 if none
	promised uint64   // highest number that may be given before more are promised
	broken   error    // why the stored numbers cannot be read
	clock    uint64   // if not 0, the next number is the time in milliseconds, from this time on
	noted    note     // content of the note files

	synced sync.WaitGroup // syncs of the note files
}

// HighestNumber is greater than all numbers given, which count up from 1 or from the time
// in milliseconds. Larger values in files are rejected, because nothing could follow them.
const HighestNumber = 1 << 53

// Last returns the highest number known to be given to a plan, stored or not.
func (s *Numbers) Last() uint64 { return s.last }

// Next returns the number for the next plan. If neither the state directory nor a note file
// can record numbers, it is the time in milliseconds, which no restart returns to.
func (s *Numbers) Next() uint64 {
	n := max(s.last, s.passed) + 1
	if s.clock != 0 {
		n = max(n, milliseconds())
	}
	return n
}

func milliseconds() uint64 { return uint64(time.Now().UnixMilli()) }

// After returns the number for a plan that is published together with plan n and replaces
// plan last of its own kind (0 if it is the first): n, or the next number if a plan of its
// kind may already have n.
func (s *Numbers) After(n, last uint64) uint64 {
	if n > max(last, s.others) {
		return n
	}
	return max(s.Next(), last+1)
}

// AdvanceTo marks all numbers up to n as given by another forsd. If n is greater than Passed,
// that forsd's plans are later than those lost here. A crash forgets n until a higher
// number or the removal of a job is stored.
func (s *Numbers) AdvanceTo(n uint64) {
	s.last, s.others = max(s.last, n), max(s.others, n)
	if n > s.passed {
		s.passed = 0
	}
}

// PassOver marks all numbers up to n as given to unknown plans.
func (s *Numbers) PassOver(n uint64) {
	s.AdvanceTo(n)
	s.passed = max(s.passed, n)
}

// Passed returns the highest number that an unknown plan may have, such as a plan lost with
// the machine, or 0. Ranks may have that plan, so a known plan up to this number may not be
// the latest of its kind.
func (s *Numbers) Passed() uint64 { return s.passed }

// Lost returns the highest number that an earlier process may have given in doubt and from memory,
// so that another forsd which has led since may not know of it, or 0.
func (s *Numbers) Lost() uint64 {
	if s.lost > s.last+promiseAhead { // otherwise it was promised, and the one that leads has given it
		return s.lost
	}
	return 0
}

// Broken returns why the stored promise cannot be read, or nil. In that case numbers
// continue after those of the stored plans.
func (s *Numbers) Broken() error { return s.broken }

// promiseFile holds the promise; promiseAhead is how many numbers it covers.
const (
	promiseFile  = "promised.json"
	promiseAhead = 64
)

// promise is the content of promiseFile.
type promise struct {
	Epoch uint64 `json:"epoch"` // no higher number was given
	Boot  string `json:"boot"`  // boot ID; a restart of forsd alone loses nothing
}

// promise ensures that the number n may be given. It waits for the disk if the promised
// numbers are used up.
func (s *Numbers) promise(n uint64) error {
	if n <= s.promised {
		return nil
	}
	p := promise{max(n, s.passed) + promiseAhead, bootID()}
	text, err := json.Marshal(p)
	if err == nil {
		err = replaceFile(filepath.Join(s.dir, promiseFile), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("promise the numbers of epochs: %w", err)
	}
	s.promised = p.Epoch
	s.write(note{p.Epoch, max(s.noted.Given, s.passed)})
	return nil
}

// promiseAfter promises further numbers after n, which is stored, so that the next one does not
// wait for the disk.
func (s *Numbers) promiseAfter(n uint64) error {
	err := s.promise(n + 1)
	if err == nil && s.noted.Given != 0 && s.noted.Given < n {
		s.write(note{Promised: s.promised}) // no restart can return to a lower number now
	}
	return err
}

// readPromise reads the stored promise, if any. If it cannot be read, the error says so,
// and numbers continue after those of the stored plans.
func (s *Numbers) readPromise() error {
	path := filepath.Join(s.dir, promiseFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var p promise
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && p.Epoch > HighestNumber {
		err = fmt.Errorf("no epoch has the number %d", p.Epoch)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; numbers go on from those that are stored", path, err)
	}
	if id := bootID(); id != "" && p.Boot == id {
		s.promised = p.Epoch
	} else {
		s.passed = p.Epoch
	}
	return nil
}

// bootID returns the kernel's boot ID, or "" if it is unknown, which matches no other.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// note is the content of a note file.
type note struct {
	Promised uint64 `json:"promised"` // as in promise; used if the state directory is lost
	Given    uint64 `json:"given"`    // numbers up to it may have been given from memory; 0 if none
}

// write stores a note in every note file and reports whether at least one was written. The
// note survives a crash of the process at once, and of the machine after synced.
func (s *Numbers) write(n note) (kept bool) {
	text, _ := json.Marshal(n)
	s.synced.Wait()
	for _, path := range s.beside {
		next := path + ".new"
		if os.WriteFile(next, append(text, '\n'), 0o644) != nil || os.Rename(next, path) != nil {
			_ = os.Remove(next)
			continue
		}
		kept = true
		s.synced.Go(func() { _ = SyncPath(path) })
	}
	if kept {
		s.noted = n
	}
	return kept
}

// readSideFiles skips the numbers that an earlier process gave from memory, and all promised
// numbers that the state directory does not know of, because it was lost or is an old copy.
func (s *Numbers) readSideFiles() {
	promised := max(s.promised, s.passed)
	for _, path := range s.beside {
		text, err := os.ReadFile(path)
		var n note
		if err == nil {
			err = json.Unmarshal(text, &n)
		}
		if err != nil || max(n.Given, n.Promised) > HighestNumber {
			continue // missing or damaged: the state directory is used alone
		}
		s.passed, s.noted.Given = max(s.passed, n.Given), max(s.noted.Given, n.Given)
		s.lost = s.noted.Given
		if promised < n.Promised && s.passed < n.Promised {
			s.passed = n.Promised
			s.broken = errors.Join(s.broken, fmt.Errorf("numbers up to %d were promised, by %s, and up to %d by %s: what was stored last is lost", n.Promised, path, promised, filepath.Join(s.dir, promiseFile)))
		}
	}
}

// ErrNumber means that a number could not be recorded as given; Next returns another one.
var ErrNumber = errors.New("nowhere can be kept that the number was given")

// givenAhead is how many numbers of the clock UseWithoutDisk records at once, one hour of them,
// because plans wait for the write.
const givenAhead = 3_600_000

// UseWithoutDisk records that the number n, from Next or After, was given to a plan that could not be
// stored and is in force from memory. If it returns nil, no restart of forsd or of the
// machine gives n to another plan.
func (s *Numbers) UseWithoutDisk(n uint64) error {
	least, most := s.promised, s.promised
	if n+promiseAhead/2 > s.promised { // the clock's are next
		least = max(n, milliseconds())
		most = least + givenAhead
	}
	said := least <= s.noted.Given || s.write(note{s.promised, most})
	switch {
	case s.clock != 0 && n >= s.clock:
		// The clock does not return to n. The file makes later counted numbers higher.
		s.synced.Wait()
	case said && n <= s.promised:
		// The promise covers a crash of the machine, the note one of the process.
	default:
		s.clock = milliseconds()
		return ErrNumber
	}
	s.last = max(s.last, n)
	return nil
}

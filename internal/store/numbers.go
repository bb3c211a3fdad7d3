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

	"github.com/google/renameio/v2"
)

// An epoch is published before the disk has it. Where the machine fails just then, it
// may be lost, and its number must not come back under another plan: ranks would take
// the two for one. So numbers are promised in advance, durably, and those that may
// have been given are passed over when the machine has been started anew. The plan in
// force then, which may be the one before, is to be published again under a number
// above them all: ranks may have the lost one, and it may use what has died since.

// All plans have their numbers from one row: epochs, plans of jobs, and plans for base LIDs.
// A plan that does not change keeps its number if that is above Passed. Any other plan takes
// the number After the plan that it is published with, or the Next one.

// numbers are those given to plans, and those that may have been given.
type numbers struct {
	dir      string   // the state directory
	beside   []string // files outside of it that tell which numbers were given
	last     uint64   // highest number known to be given to a plan, usable or not
	others   uint64   // highest number that may have been given before this process, or by another forsd
	passed   uint64   // highest number that may have been given before the machine failed, 0 if it has not
	promised uint64   // highest number that may be given before more are promised
	broken   error    // why what is stored of numbers cannot be read
	clock    uint64   // from which time in milliseconds on that is the next number; 0 where numbers count up
	noted    note     // what the files beside say

	synced sync.WaitGroup // bringing the files beside to disk
}

// HighestNumber is above all numbers that are given: they count up from 1, or from the
// time in milliseconds. One that is not leaves no room to count on.
const HighestNumber = 1 << 53

// Last is the highest number that is known to be given to a plan, whether that is kept or
// not.
func (s *numbers) Last() uint64 { return s.last }

// Next is the number for the next plan. Where neither the state
// directory nor a file beside it can keep what was given, it is the clock's, in
// milliseconds, which no restart comes to again.
func (s *numbers) Next() uint64 {
	n := max(s.last, s.passed) + 1
	if s.clock != 0 {
		n = max(n, milliseconds())
	}
	return n
}

func milliseconds() uint64 { return uint64(time.Now().UnixMilli()) }

// After is the number for a plan that is published with plan n and replaces plan last of its
// own kind, 0 for the first: n, or the next number if a plan of its kind may have had n.
func (s *numbers) After(n, last uint64) uint64 {
	if n > max(last, s.others) {
		return n
	}
	return max(s.Next(), last+1)
}

// Raise counts all numbers up to n as given by another forsd. If n is above Passed, its
// plans are later than those lost here. A crash forgets n, until a higher number or the
// removal of a job is stored.
func (s *numbers) Raise(n uint64) {
	s.last, s.others = max(s.last, n), max(s.others, n)
	if n > s.passed {
		s.passed = 0
	}
}

// PassOver counts all numbers up to n as given to unknown plans.
func (s *numbers) PassOver(n uint64) {
	s.Raise(n)
	s.passed = max(s.passed, n)
}

// Passed is the highest number that an unknown plan may have, such as a plan lost with the
// machine; 0 if all are known. Readers may have that plan: a known plan up to this number
// may not be the last of its kind.
func (s *numbers) Passed() uint64 { return s.passed }

// Broken says why the promise that is stored cannot be read, nil where it can: numbers
// go on from those that are stored then.
func (s *numbers) Broken() error { return s.broken }

// promiseFile holds the promise, and promiseAhead is how many numbers it is for.
const (
	promiseFile  = "promised.json"
	promiseAhead = 64
)

// promise is what the file says.
type promise struct {
	Epoch uint64 `json:"epoch"` // no higher number is given
	Boot  string `json:"boot"`  // of the machine when it was said; an orderly restart of forsd loses nothing
}

// promise sees to it that the number n may be given. It waits for the disk where the
// numbers promised are used up.
func (s *numbers) promise(n uint64) error {
	if n <= s.promised {
		return nil
	}
	p := promise{max(n, s.passed) + promiseAhead, bootID()}
	text, err := json.Marshal(p)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(s.dir, promiseFile), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = syncPath(s.dir)
	}
	if err != nil {
		return fmt.Errorf("promise the numbers of epochs: %w", err)
	}
	s.promised = p.Epoch
	s.write(note{Promised: p.Epoch, Given: s.noted.Given})
	return nil
}

// takePromise goes on from the promise that is stored, if there is one. With one that
// cannot be read, which the error says, the numbers that are stored are all there is to
// go by.
func (s *numbers) takePromise() error {
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

// bootID names the time since the machine was started, "" where that is not known:
// then it is never the same.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// note is what a file beside the state directory says.
type note struct {
	Promised uint64 `json:"promised"` // as promise; of use where the state directory has been lost
	Given    uint64 `json:"given"`    // numbers up to it may have been given from memory; 0 for none
}

// write keeps a note in every file beside that takes it, and tells whether one did. It
// outlasts this process at once, and the machine soon: see synced.
func (s *numbers) write(n note) (kept bool) {
	text, _ := json.Marshal(n)
	s.synced.Wait()
	for _, path := range s.beside {
		next := path + ".new"
		if os.WriteFile(next, append(text, '\n'), 0o644) != nil || os.Rename(next, path) != nil {
			_ = os.Remove(next)
			continue
		}
		kept = true
		s.synced.Go(func() { _ = syncPath(path) })
	}
	if kept {
		s.noted = n
	}
	return kept
}

// takeNotes has numbers passed over that were given from memory before this process, and
// all that were promised where the state directory does not know of that: it is an older
// one, or has been lost.
func (s *numbers) takeNotes() {
	promised := max(s.promised, s.passed)
	for _, path := range s.beside {
		text, err := os.ReadFile(path)
		var n note
		if err == nil {
			err = json.Unmarshal(text, &n)
		}
		if err != nil || max(n.Given, n.Promised) > HighestNumber {
			continue // it is missing, or says nothing: the state directory does
		}
		s.passed, s.noted.Given = max(s.passed, n.Given), max(s.noted.Given, n.Given)
		if promised < n.Promised && s.passed < n.Promised {
			s.passed = n.Promised
			s.broken = errors.Join(s.broken, fmt.Errorf("numbers up to %d were promised, by %s, and up to %d by %s: what was stored last is lost", n.Promised, path, promised, filepath.Join(s.dir, promiseFile)))
		}
	}
}

// ErrNumber says that a number cannot be made safe: Next is another one from now on.
var ErrNumber = errors.New("nowhere can be kept that the number was given")

// givenAhead is for how many numbers of the clock Give writes a note, an hour of them: plans
// wait for that.
const givenAhead = 3_600_000

// Give has a number count as given whose bearer could not be stored, and is in force from
// memory. It came from Next or After, and is safe from then on: no restart of forsd, nor of the
// machine, gives it to another plan.
func (s *numbers) Give(n uint64) error {
	least, most := s.promised, s.promised
	if n+promiseAhead/2 > s.promised { // the clock's are next
		least = max(n, milliseconds())
		most = least + givenAhead
	}
	said := least <= s.noted.Given || s.write(note{s.promised, most})
	switch {
	case s.clock != 0 && n >= s.clock:
		// The clock sees to it that no other plan has it. The file is for those after
		// it to be higher.
		s.synced.Wait()
	case said && n <= s.promised:
		// The promise is for a machine that fails, and the file for a process that does.
	default:
		s.clock = milliseconds()
		return ErrNumber
	}
	s.last = max(s.last, n)
	return nil
}

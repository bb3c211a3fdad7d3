package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// An epoch is published before the disk has it. Where the machine fails just then, it
// may be lost, and its number must not come back under another plan: ranks would take
// the two for one. So numbers are promised in advance, durably, and those that may
// have been given are passed over when the machine has been started anew. The plan in
// force then, which may be the one before, is to be published again under a number
// above them all: ranks may have the lost one, and it may use what has died since.

// HighestNumber is above all numbers that are given: they count up from 1, or from the
// time in milliseconds. One that is not leaves no room to count on.
const HighestNumber = 1 << 53

// Last is the highest number that is known to be given to an epoch or a job's plan,
// whether that is kept or not.
func (s *Store) Last() uint64 { return s.last }

// Next is the number for the next epoch, or plan of a job. Where neither the state
// directory nor a file beside it can keep what was given, it is the clock's, in
// milliseconds, which no restart comes to again.
func (s *Store) Next() uint64 {
	n := max(s.last, s.passed) + 1
	if s.clock != 0 {
		n = max(n, milliseconds())
	}
	return n
}

func milliseconds() uint64 { return uint64(time.Now().UnixMilli()) }

// Raise has all numbers up to n count as given, by whomever. A crash forgets that, until
// a higher number or the removal of a job is stored.
func (s *Store) Raise(n uint64) { s.last = max(s.last, n) }

// Passed is the highest number that may have been given before the machine failed, 0
// if it has not. Where that is above Last, the epoch in force may not be the last that
// was published.
func (s *Store) Passed() uint64 { return s.passed }

// Broken says why the promise that is stored cannot be read, nil where it can: numbers
// go on from those that are stored then.
func (s *Store) Broken() error { return s.broken }

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
func (s *Store) promise(n uint64) error {
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
func (s *Store) takePromise() error {
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

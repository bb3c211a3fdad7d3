package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// An epoch is published before the disk has it. Where the machine fails just then, it
// may be lost, and its number must not come back under another plan: ranks would take
// the two for one. So numbers are promised in advance, durably, and those that may
// have been given are passed over when the machine has been started anew. The plan in
// force then, which may be the one before, is published again under a number above
// them all: ranks may have the lost one, and it may use what has died since.

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
func (s *store) promise(n uint64) error {
	if n <= s.promised {
		return nil
	}
	p := promise{max(n, s.passed) + promiseAhead, bootID()}
	text, err := json.Marshal(p)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(s.dir, promiseFile), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("promise the numbers of epochs: %w", err)
	}
	s.promised = p.Epoch
	return nil
}

// takePromise goes on from the promise that is stored, if there is one. With one that
// cannot be read, which the error says, the numbers that are stored are all there is to
// go by.
func (s *store) takePromise() error {
	path := filepath.Join(s.dir, promiseFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var p promise
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && p.Epoch > highestNumber {
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

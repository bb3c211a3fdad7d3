package opensm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// ErrSwitchedOff is returned if datagrams of our own are disabled.
var ErrSwitchedOff = errors.New("opensm.umad is off")

// UmadOff is the Switches.Port that leaves the reading to the command.
const UmadOff = "off"

// Switches reads the forwarding tables out of the switches: by datagrams of its
// own, or, where those cannot be used or fail, by a command. It must not be copied.
type Switches struct {
	// Port is the local port to use, as device or device:port. Empty means the one in the
	// fabric, UmadOff none.
	Port    string
	Command ReadBack
	// Note receives the reason why the command is used, or nil when it no longer is; once
	// for each change. It may be nil.
	Note func(err error)
	// Open opens the local port; nil means the port that PickPort chooses for the fabric.
	Open func(f *topology.Fabric) (*umad.Reader, error)

	mu     sync.Mutex // guards what follows
	reader *umad.Reader
	told   bool   // Note has been called
	noted  string // what it was told last
}

// Tables reads the tables of all switches of f. whole is false if a command read them,
// which may leave out the last LID; see lft.FillUnread. The error is set if either way
// failed.
func (s *Switches) Tables(ctx context.Context, f *topology.Fabric) (t *lft.Tables, whole bool, err error) {
	t, own := s.own(ctx, f)
	if own != nil && ctx.Err() != nil {
		return nil, false, own // the caller no longer waits
	}
	s.note(own)
	if own == nil {
		return t, true, nil
	}
	if t, err = s.Command.Tables(ctx); err != nil {
		if !errors.Is(own, ErrSwitchedOff) && !errors.Is(own, umad.ErrNotBuiltIn) {
			err = fmt.Errorf("%w; before that: %w", err, own)
		}
		return nil, false, err
	}
	return t, false, nil
}

// own reads the tables by datagrams of our own.
func (s *Switches) own(ctx context.Context, f *topology.Fabric) (*lft.Tables, error) {
	r, err := s.Reader(f)
	if err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, s.Command.Timeout)
	defer cancel()
	t, err := r.Tables(ctx, f)
	if t == nil && ctx.Err() == nil { // it is the port that fails, and not a switch: choose again
		err = errors.Join(err, s.giveUp(r))
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Reader returns the reader on the local port, which is chosen and opened if necessary; f
// may be nil. All questions to switches in this process should use it: a port has one
// window. It stays open until its port fails.
func (s *Switches) Reader(f *topology.Fabric) (*umad.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != nil {
		return s.reader, nil
	}
	open := s.Open
	if open == nil {
		open = s.open
	}
	var err error
	s.reader, err = open(f)
	return s.reader, err
}

func (s *Switches) open(f *topology.Fabric) (*umad.Reader, error) {
	p, err := PickPort(s.Port, f)
	if err != nil {
		return nil, err
	}
	return umad.Open(p, umad.Options{})
}

// giveUp closes a reader whose port has failed.
func (s *Switches) giveUp(r *umad.Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != r {
		return nil
	}
	s.reader = nil
	return r.Close()
}

// note reports a change to Note.
func (s *Switches) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	news := !s.told || text != s.noted
	s.told, s.noted = true, text
	s.mu.Unlock()
	if news && s.Note != nil {
		s.Note(err)
	}
}

// PickPort chooses the local port for reading the switches of f. Of the ports that the
// setting allows (see Switches.Port) it prefers one in the fabric, then an active one. f may
// be nil. The error names the missing condition.
func PickPort(setting string, f *topology.Fabric) (umad.LocalPort, error) {
	if setting == UmadOff {
		return umad.LocalPort{}, ErrSwitchedOff
	}
	all, err := umad.LocalPorts()
	if err != nil {
		return umad.LocalPort{}, err
	}
	return pick(all, setting, f)
}

func pick(all []umad.LocalPort, setting string, f *topology.Fabric) (umad.LocalPort, error) {
	allowed := slices.DeleteFunc(slices.Clone(all), func(p umad.LocalPort) bool {
		return !p.InfiniBand || setting != "" && setting != p.Device && setting != p.String()
	})
	if len(allowed) == 0 {
		return umad.LocalPort{}, noPort(all, setting)
	}
	slices.SortStableFunc(allowed, func(a, b umad.LocalPort) int { return rank(f, b) - rank(f, a) })
	if rank(f, allowed[0]) == 0 {
		return umad.LocalPort{}, fmt.Errorf("none of the InfiniBand ports %v is active: check its cable, and that a subnet manager runs", allowed)
	}
	return allowed[0], nil
}

// noPort says why no port may be used: ports of Ethernet are not for a subnet manager.
func noPort(all []umad.LocalPort, setting string) error {
	usable := slices.DeleteFunc(slices.Clone(all), func(p umad.LocalPort) bool { return !p.InfiniBand })
	ethernet := ""
	if n := len(all) - len(usable); n > 0 {
		ethernet = fmt.Sprintf(" (%d of Ethernet do not count)", n)
	}
	switch {
	case len(usable) == 0:
		return errors.New("there is no InfiniBand port on this machine" + ethernet)
	case slices.ContainsFunc(all, func(p umad.LocalPort) bool { return setting == p.Device || setting == p.String() }):
		return fmt.Errorf("%s is a port of Ethernet: set opensm.umad to one of %v", setting, usable)
	}
	return fmt.Errorf("there is no InfiniBand port %s on this machine: set opensm.umad to one of %v", setting, usable)
}

// rank is how well a port suits: 2 in the fabric, 1 active, 0 neither.
func rank(f *topology.Fabric, p umad.LocalPort) int {
	if f != nil {
		for _, e := range f.EndPorts() {
			if e.GUID == p.GUID && p.GUID != 0 {
				return 2
			}
		}
	}
	if p.State == topology.Active {
		return 1
	}
	return 0
}

// DefaultReadBack prints the tables that the switches hold; it belongs to
// Debian's infiniband-diags.
var DefaultReadBack = []string{"dump_fts", "-n"}

// ReadBack reads the forwarding tables out of the switches.
type ReadBack struct {
	Command []string // program and arguments, such as DefaultReadBack
	Timeout time.Duration
}

// Tables runs the command in a temporary working directory and parses its output as it
// arrives. It kills the command and all processes that the command started when ctx ends,
// the time is over or the output is not tables. The error contains the command's standard
// error.
func (r ReadBack) Tables(ctx context.Context) (t *lft.Tables, err error) {
	err = runCommand(ctx, r.Timeout, r.Command, func(text io.Reader) (err error) {
		t, err = lft.Read(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tables back with %q: %w", strings.Join(r.Command, " "), hint(err))
	}
	return t, nil
}

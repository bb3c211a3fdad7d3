package opensm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

const (
	defaultPoll     = time.Second
	defaultPatience = 5 * time.Second
	defaultMaxSize  = 512 << 20
	firstRetry      = time.Millisecond
	// staleLimit bounds the wait for a guid2lid that fits the dump. OpenSM
	// renames the new one into place before it routes, long before it dumps.
	staleLimit = 500 * time.Millisecond
	// stdioBlock divides the size of every file that stdio has not finished:
	// its buffer goes out in whole blocks of 4 or 8 KiB until fclose.
	stdioBlock = 4096
	// blockSettle is how long a file of whole blocks must rest to be complete.
	blockSettle = 20 * time.Millisecond
)

// Snapshot is the fabric as one sweep of OpenSM left it.
type Snapshot struct {
	Fabric     *topology.Fabric // shared by snapshots of equal content: read only
	SeenAt     time.Time        // when its first change was noticed
	CompleteAt time.Time        // when it was found whole and understood
	Swept      bool             // a sweep of OpenSM has ended with it
}

// Watcher delivers a Snapshot for every opensm-subnet.lst that OpenSM writes, even with the
// same content, because the end of a sweep matters too. Set the fields before Run and leave
// them alone after it.
//
// OpenSM truncates the file and writes it in place. A dump counts as complete when it
// parses (topology.ErrIncomplete means that it is half written), did not change while it
// was read, and is not cut at a multiple of the write buffer.
type Watcher struct {
	Dir      string // dump_files_dir
	GUID2LID string // path of guid2lid, "" if none
	// LMC is asked if there is no guid2lid; nil means 0.
	LMC func() uint8
	// Deliver receives every snapshot, one at a time; it must not block for long.
	Deliver func(Snapshot)
	// Report receives a code and the error, or nil when it is over. Equal reports are not
	// repeated. It is called by two goroutines, one at a time.
	Report func(code string, err error)

	Poll     time.Duration // safety net in addition to fsnotify; 0 means 1 s
	Patience time.Duration // before a missing or half-written dump is reported; 0 means 5 s
	MaxSize  int64         // larger dumps are refused, in bytes; 0 means 512 MiB
	// Parse reads the dump; nil means topology.ReadSubnetLst.
	Parse func([]byte) (*topology.Fabric, error)
}

// Run watches until ctx ends, whose error it returns.
func (w *Watcher) Run(ctx context.Context) error {
	s := w.start()
	changed := make(chan time.Time, 1)
	n := &notifier{
		files:  []string{s.dump},
		every:  s.Poll,
		signal: func(at time.Time) { signalOnce(changed, at) },
		report: s.report,
	}
	if s.GUID2LID != "" {
		n.files = append(n.files, s.GUID2LID)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.run(ctx)
	}()
	err := s.loop(ctx, changed)
	<-done
	return err
}

// signalOnce keeps the earliest time not received yet.
func signalOnce(c chan time.Time, at time.Time) {
	select {
	case c <- at:
	default:
	}
}

// watch is the state of a running Watcher.
type watch struct {
	Watcher
	dump    string
	problem *reporter

	pending time.Time // when the change in hand was noticed, zero if none
	absent  time.Time // since when the dump is missing, zero if it exists
	retry   time.Duration
	rest    time.Time // when a file of whole blocks was first met as it is
	resting version
	handled version // the dump that was delivered or refused
	lids    version // the guid2lid that went with it
	lmc     uint8   // what LMC said then
	stale   bool    // what was delivered has its LMC from the settings

	raw    [sha256.Size]byte // of the dump that gave what follows
	bare   *topology.Fabric  // before guid2lid
	fabric *topology.Fabric
}

// start fills in the defaults.
func (w *Watcher) start() *watch {
	s := &watch{Watcher: *w, dump: filepath.Join(w.Dir, SubnetFile), problem: newReporter(w.Report)}
	s.Poll = cmp.Or(s.Poll, defaultPoll)
	s.Patience = cmp.Or(s.Patience, defaultPatience)
	s.MaxSize = cmp.Or(s.MaxSize, defaultMaxSize)
	if s.Parse == nil {
		s.Parse = topology.ReadSubnetLst
	}
	if s.LMC == nil {
		s.LMC = func() uint8 { return 0 }
	}
	return s
}

func (s *watch) report(code string, err error) { s.problem.report(code, err) }

// loop looks at the files whenever they change and whenever step asks for it.
func (s *watch) loop(ctx context.Context, changed <-chan time.Time) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case at := <-changed:
			s.retry = 0
			timer.Reset(s.step(at))
		case <-timer.C:
			timer.Reset(s.step(time.Now()))
		}
	}
}

// step handles the dump if it is new, and says when to look again at the latest.
func (s *watch) step(at time.Time) time.Duration {
	v, err := stat(s.dump)
	if errors.Is(err, fs.ErrNotExist) {
		return s.missing(at, err)
	}
	s.absent = time.Time{}
	s.report(DumpMissing, nil)
	if err == nil && v == s.handled && !s.refreshed() {
		return s.Poll
	}
	if s.pending.IsZero() {
		s.pending = at
	}
	if err == nil {
		err = s.handle(v)
	}
	if errors.Is(err, topology.ErrIncomplete) || errors.Is(err, errUnsettled) || errors.Is(err, fs.ErrNotExist) {
		if time.Since(s.pending) >= s.Patience {
			s.report(DumpIncomplete, fmt.Errorf("%s stays half written: %w", s.dump, err))
		}
		s.retry = min(max(2*s.retry, firstRetry), s.Poll)
		return s.retry
	}
	s.pending, s.retry, s.rest = time.Time{}, 0, time.Time{}
	s.report(DumpIncomplete, nil)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.dump, err)
	}
	s.report(DumpRefused, err)
	if s.handled = v; errors.As(err, new(*fs.PathError)) {
		s.handled = version{} // what could not be read may become readable as it is
	}
	return s.Poll
}

// missing waits for a dump that is not there.
func (s *watch) missing(at time.Time, err error) time.Duration {
	s.pending, s.retry, s.rest = time.Time{}, 0, time.Time{}
	s.report(DumpIncomplete, nil)
	s.report(DumpRefused, nil)
	if s.absent.IsZero() {
		s.absent = at
	}
	if time.Since(s.absent) >= s.Patience {
		s.report(DumpMissing, fmt.Errorf("%w: OpenSM writes it after its first successful sweep; is OpenSM running, with dump_files_dir %s?", err, s.Dir))
	}
	return min(s.Poll, s.Patience)
}

// refreshed reports whether a guid2lid that did not fit was replaced.
func (s *watch) refreshed() bool {
	if !s.stale {
		return false
	}
	v, err := stat(s.GUID2LID)
	return err == nil && v != s.lids
}

// errUnsettled means that a file changes, or may change, while it is read.
var errUnsettled = errors.New("it is being written")

// handle reads and delivers the dump that was v when it was last looked at.
func (s *watch) handle(seen version) error {
	// While OpenSM writes, it is not to be held up by reading what it has so far.
	if err := s.complete(seen, time.Now()); err != nil {
		return err
	}
	data, v, err := readStable(s.dump, s.MaxSize)
	if err != nil {
		return err
	}
	if n := len(data); n == 0 || data[n-1] != '\n' { // most writes end so: spare the rest
		return fmt.Errorf("it has %d bytes, and no end of line: %w", n, topology.ErrIncomplete)
	}
	raw := sha256.Sum256(data)
	if s.bare == nil || raw != s.raw {
		f, err := s.Parse(data)
		if unsettled := s.complete(v, time.Now()); err != nil && unsettled != nil {
			return unsettled
		}
		if err != nil {
			return err
		}
		s.bare, s.raw, s.fabric = f, raw, nil
	}
	if err := s.complete(v, time.Now()); err != nil {
		return err
	}
	if err := s.finish(); err != nil {
		return err
	}
	if v != seen {
		return errUnsettled
	}
	s.Deliver(Snapshot{Fabric: s.fabric, SeenAt: s.pending, CompleteAt: time.Now(), Swept: true})
	return nil
}

// complete refuses a file that changed since it was read, and one of whole
// blocks that has not rested.
func (s *watch) complete(v version, now time.Time) error {
	switch after, err := stat(s.dump); {
	case err != nil:
		return err
	case after != v:
		return errUnsettled
	case v.size%stdioBlock != 0:
		return nil
	case s.rest.IsZero() || s.resting != v:
		s.rest, s.resting = now, v
		return errUnsettled
	case now.Sub(s.rest) < blockSettle:
		return errUnsettled
	}
	return nil
}

// finish sets the LMCs of the parsed fabric: those of guid2lid, or, where that
// is missing or keeps contradicting the dump, the one of the settings.
func (s *watch) finish() error {
	lids, ranges, err := s.readGUID2LID()
	lmc := s.LMC()
	if err == nil && s.fabric != nil && !s.stale && lids == s.lids && lmc == s.lmc {
		return nil
	}
	f := s.bare.Clone()
	if err == nil && ranges != nil {
		err = f.ApplyGUID2LID(ranges)
	}
	if err != nil && time.Since(s.pending) < staleLimit {
		return fmt.Errorf("%w: %w", errUnsettled, err)
	}
	s.report(GUID2LIDStale, err)
	s.lids, s.lmc, s.stale = lids, lmc, err != nil
	if err != nil || ranges == nil {
		if err := f.SetLMC(lmc); err != nil {
			return fmt.Errorf("set LMC %d of OpenSM's settings: %w", lmc, err)
		}
	}
	s.fabric = f
	return nil
}

// readGUID2LID returns the ranges of guid2lid, nil if the file does not exist.
func (s *watch) readGUID2LID() (version, map[ib.GUID]topology.LIDRange, error) {
	if s.GUID2LID == "" {
		return version{}, nil, nil
	}
	data, v, err := readStable(s.GUID2LID, s.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return version{}, nil, nil
	}
	if err != nil {
		return v, nil, err
	}
	ranges, err := topology.ReadGUID2LID(data)
	if err != nil {
		return v, nil, fmt.Errorf("%s: %w", s.GUID2LID, err)
	}
	return v, ranges, nil
}

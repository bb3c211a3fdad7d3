package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/programs"
)

// patience is how long a state may take to come on a machine under heavy load; a test waits as
// long as this only if the state does not come.
const patience = 90 * time.Second

var (
	programDir string
	program    = sync.OnceValues(func() (string, error) { return Build(context.Background(), programDir) })
	// steppable builds a forsd with a clock of its own if long: it compiles all that uses a clock.
	steppable = sync.OnceValues(func() (string, error) {
		if !long {
			return program()
		}
		dir := filepath.Join(programDir, "steppable")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
		return BuildSteppable(context.Background(), dir)
	})
)

// long asks for the sizes and the numbers of rounds that a release is tried with.
var long = os.Getenv("FORS_LONG") != ""

// many returns few, or all of them if long.
func many(few, all int) int {
	if long {
		return all
	}
	return few
}

func TestMain(m *testing.M) { programs.Scratch(m, &programDir) }

// test is a site under test.
type test struct {
	*testing.T
	*Site
	ctx context.Context
}

// steady keeps the damping of bouncing cables out of tests that pull the same
// cable often, and tries again quickly.
const steady = "damping: {flaps: 1000}\nretry: {first: 100ms, max: 1s}\n"

// newSite simulates a site; nothing is started on it. Sites mostly wait, so tests run in parallel
// if they have no time limit for anything, and do not depend on another manager's patience.
func newSite(t *testing.T, limit time.Duration, o Options) *test {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts OpenSM")
	}
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test took longer than %v", limit))
	t.Cleanup(cancel)
	if o.Forsd == "" {
		o.Forsd = path
	}
	if o.Config == "" {
		o.Config = steady
	}
	site, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	x := &test{t, site, ctx}
	t.Cleanup(func() {
		if t.Failed() {
			x.logs()
		}
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// up starts forsd, then OpenSM, and waits until the site is at rest and checked.
func up(t *testing.T, limit time.Duration, o Options) (*test, *Sight) {
	t.Helper()
	x := newSite(t, limit, o)
	x.ok(x.Start(x.ctx))
	x.loaded()
	return x, x.check()
}

// loaded waits until the site has settled, and until OpenSM's log, which is read in rounds, no
// longer has its first sweep, which came before the table file.
func (x *test) loaded() *api.Status {
	x.Helper()
	x.settled(nil)
	return x.until("OpenSM has loaded tables", func(st *api.Status) bool {
		return !HasWarning(st, opensm.EngineFallback) && !HasWarning(st, opensm.FileRejected)
	})
}

// ok ends the test at the first error.
func (x *test) ok(errs ...error) {
	x.Helper()
	for _, err := range errs {
		if err != nil {
			x.Fatal(err)
		}
	}
}

// within bounds a wait.
func (x *test) within() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(x.ctx, patience, fmt.Errorf("it did not come within %v", patience))
}

func (x *test) settled(want func(*api.Topology) error) *api.Status {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	st, err := x.Settled(ctx, want)
	x.ok(err)
	return st
}

func (x *test) warned(codes ...string) *api.Status {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	st, err := x.Warned(ctx, codes...)
	x.ok(err)
	return st
}

// until waits for a condition on the status.
func (x *test) until(what string, good func(*api.Status) bool) *api.Status {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	var st *api.Status
	x.ok(x.Until(ctx, func() (err error) {
		if st, err = x.Client.Status(ctx); err == nil && !good(st) {
			err = fmt.Errorf("wait until %s: state %s, epoch %d, warnings %v", what, st.State, st.Epoch, st.Warnings)
		}
		return err
	}))
	return st
}

// check checks the site against forsd's promises; see Site.Check.
func (x *test) check() *Sight {
	x.Helper()
	s, err := x.Check(x.ctx)
	x.ok(err)
	x.ok(s.Reachable())
	return s
}

// unmoved fails if an entry of a lane that is not exempt changed.
func (x *test) unmoved(before, after *Sight, lanes ...int) {
	x.Helper()
	if err := before.Unmoved(after, lanes...); err != nil {
		x.Errorf("with lanes %v affected: %v", lanes, err)
	}
}

// said fails unless one of the texts holds all the parts.
func (x *test) said(texts []string, parts ...string) {
	x.Helper()
	for _, text := range texts {
		found := 0
		for _, part := range parts {
			if strings.Contains(text, part) {
				found++
			}
		}
		if found == len(parts) {
			return
		}
	}
	x.Errorf("nothing says %q: %q", parts, texts)
}

// routing matches errors that OpenSM's routing and the programming of tables log. A
// packet to a switch that is lost while its cable is pulled is not one: OpenSM then
// sweeps again.
var routing = regexp.MustCompile(`(?i)ucast|rout|lft|fwd|lid matrix`)

// noRoutingErrors fails if OpenSM's log has an error in routing, or another engine than file,
// once forsd's first tables are there.
func (x *test) noRoutingErrors() {
	x.Helper()
	log, err := x.SM.Log()
	x.ok(err)
	used := 0
	for line := range strings.Lines(string(log)) {
		e, ok := opensm.ClassifyLog(line)
		switch {
		case !ok, used == 0 && (e.Kind != opensm.EngineUsed || e.Fallback()):
		case e.Fallback(), e.Kind == opensm.TableFileRejected, e.Kind == opensm.RoutingFailed, e.Kind == opensm.OtherError && routing.MatchString(e.Text):
			x.Errorf("OpenSM's log: %s", line)
		case e.Kind == opensm.EngineUsed:
			used++
		}
	}
	if used == 0 {
		x.Error("OpenSM's log does not tell that it used the engine file")
	}
}

// logs prints the ends of both logs.
func (x *test) logs() {
	for _, path := range []string{x.Dir() + "/forsd.log", x.ManagerDir() + "/opensm.log"} {
		text, _ := os.ReadFile(path)
		x.Logf("%s:\n%s", path, text[max(0, len(text)-6000):])
	}
}

func lhcb() Options {
	return Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), LMC: 5}
}

func small() Options {
	return Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}), LMC: 2}
}

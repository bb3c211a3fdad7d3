package probe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/manager"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// newProbe returns a probe that cannot read switches.
func newProbe() *Probe {
	kinds := []health.Warnable{{Code: DiscoveryFailed, Severity: health.Critical}, {Code: TrapsMissing, Severity: health.Info}}
	tracker := health.NewTracker(kinds, func(health.Warning, bool) {})
	c := config.Default().OpenSM
	return New(Parts{Config: &c, Log: zap.NewNop(), State: state.New(zap.NewNop(), tracker, published.NewEvents(1, time.Now())),
		Reader: func() *opensm.Switches { return &opensm.Switches{Port: "off"} }})
}

func (p *Probe) raised(code string) bool {
	return slices.ContainsFunc(p.State.Health.List(time.Now()), func(w health.Warning) bool { return w.Code == code })
}

// TestDiscover checks that the result of a discovery is passed on, and that a failure
// raises a warning.
func TestDiscover(t *testing.T) {
	p, f := newProbe(), fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	path := filepath.Join(t.TempDir(), "net")
	p.Config.DiscoverCommand = []string{"cat", path}
	go p.Discover(t.Context(), linkstate.Discover{})
	if e := <-p.Events; e != (linkstate.Looked{}) || !p.raised(DiscoveryFailed) {
		t.Errorf("after a discovery that failed: %v", e)
	}
	if err := os.WriteFile(path, fabgen.Ibnetdiscover(f), 0o644); err != nil {
		t.Fatal(err)
	}
	go p.Discover(t.Context(), linkstate.Discover{Swept: true})
	if s := <-p.Discovered; !s.Swept || len(s.Fabric.Nodes) != len(f.Nodes) || s.SeenAt.After(s.CompleteAt) {
		t.Errorf("a discovery shows %d nodes of %d, swept %v", len(s.Fabric.Nodes), len(f.Nodes), s.Swept)
	}
	if e := <-p.Events; e != (linkstate.Looked{}) || p.raised(DiscoveryFailed) {
		t.Errorf("after a discovery: %v", e)
	}
}

// TestInstall checks that a sweep is announced when the command has copied the file, but
// not when the command fails.
func TestInstall(t *testing.T) {
	p := newProbe()
	p.Config.InstallCommand = []string{"false"}
	if err := p.Install(t.Context()); err == nil {
		t.Error("a command that fails is passed over")
	}
	p.Config.InstallCommand = nil // an operator copies the file
	done := make(chan error)
	go func() { done <- p.Install(t.Context()) }()
	if e := <-p.Events; e != (linkstate.SweepOrdered{}) {
		t.Errorf("without a command: %v", e)
	}
	if err := errors.Join(<-done, t.Context().Err()); err != nil {
		t.Error(err)
	}
}

// TestReadWithoutReader checks that an unreadable switch yields an empty answer.
func TestReadWithoutReader(t *testing.T) {
	p := newProbe()
	go p.Read(t.Context(), &topology.Fabric{}, linkstate.Read{Switch: 7, LID: 1, Ports: []uint8{0, 3}})
	if a := <-p.Answers; a.Switch != 7 || a.Ports != nil || a.Manager != 0 {
		t.Errorf("%+v", a)
	}
}

// TestPortsRead checks that PortsRead collects all answers that have arrived.
func TestPortsRead(t *testing.T) {
	p := newProbe()
	p.Answers = make(chan linkstate.Answer, 2)
	p.Answers <- linkstate.Answer{Switch: 2}
	p.Answers <- linkstate.Answer{Switch: 3}
	if said := p.PortsRead(linkstate.Answer{Switch: 1}); len(said.Answers) != 3 || said.Answers[2].Switch != 3 {
		t.Errorf("%+v", said)
	}
	if said := p.PortsRead(linkstate.Answer{Switch: 4}); len(said.Answers) != 1 {
		t.Errorf("%+v", said)
	}
}

// TestTraps passes on traps of the log and of the subnet administrator, unless the plugin brings
// them.
func TestTraps(t *testing.T) {
	p := newProbe()
	p.Manager = manager.New(manager.Parts{Config: p.Config, State: p.State})
	remote := *p.Config
	remote.DiscoverCommand = []string{"ibnetdiscover"}
	if s := Settings(p.Config); !s.Reads || s.DiscoverEvery != 0 || remote.Remote() && Settings(&remote).DiscoverEvery == 0 {
		t.Errorf("settings %+v", s)
	}
	next := func(what string, f func()) linkstate.Event {
		t.Helper()
		go f()
		select {
		case e := <-p.Events:
			return e
		case <-time.After(time.Minute):
			t.Fatal(what)
			return nil
		}
	}
	if e := next("a line of the log", func() { p.TrapLogged(7, true) }); e != (linkstate.TrapLogged{LID: 7, Told: true}) {
		t.Errorf("of the log: %v", e)
	}
	for _, n := range []struct {
		event umad.Event
		trap  bool
	}{{umad.Event{Manager: 3}, false}, {umad.Event{Notice: &umad.Notice{Trap: 65}}, false}, {umad.Event{Notice: &umad.Notice{Trap: umad.TrapLinkState, Subject: 9}}, true}} {
		e := next("a notice", func() { p.notified(t.Context(), n.event) })
		if x, trap := e.(linkstate.Trap); trap != n.trap || trap && x.LID != 9 {
			t.Errorf("%+v is %v", n.event, e)
		}
	}
	if p.wantsTraps() || p.Subscribed() {
		t.Error("traps are wanted before a fabric is known")
	}
	v, err := view.Fit(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}), nil, &config.Planning{}, true)
	if err != nil {
		t.Fatal(err)
	}
	p.State.Remember(v)
	if err := p.subscribe(t.Context()); err == nil || p.Subscribed() {
		t.Errorf("without a port: %v", err)
	}
	ctx, end := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer end()
	if err := p.WatchTraps(ctx); err != nil || !p.raised(TrapsMissing) {
		t.Errorf("no warning tells that traps are missing: %v", err)
	}
	p.Config.Traps = config.TrapsOff
	if err := p.WatchTraps(t.Context()); err != nil {
		t.Error(err)
	}
}

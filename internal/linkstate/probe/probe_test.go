package probe

import (
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
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/opensm"
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

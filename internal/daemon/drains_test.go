package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// hasty sets a machine for drains with short times.
func hasty(d *Daemon) {
	d.excluder.drains = exclusions.NewDrains(exclusions.DrainSettings{Grace: 100 * time.Millisecond, Look: 20 * time.Millisecond})
}

// order posts a request about drains as forsctl does.
func (s *site) order(path string, q any) (int, api.Drained, string) {
	s.t.Helper()
	body, err := json.Marshal(q)
	ok(s.t, err)
	status, text := ask(s.ctx, interfaces(s.components).Mount[api.Operator]["POST "+path], string(body))
	var out api.Drained
	if status == http.StatusOK {
		ok(s.t, json.Unmarshal([]byte(text), &out))
	}
	return status, out, text
}

// drainsAre waits until the drains satisfy a condition.
func (s *site) drainsAre(what string, good func([]exclusions.Drain) bool) {
	s.t.Helper()
	for !good(s.state.Now().Drains) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			s.t.Fatalf("drains are not %s: %+v", what, s.state.Now().Drains)
		}
	}
}

func safe(all []exclusions.Drain) bool {
	return !slices.ContainsFunc(all, func(d exclusions.Drain) bool { return d.State != exclusions.Safe })
}

// uses counts the transfers of the plans in force that the loss of a part of the fabric
// would stop, by the lanes and the servers of the plan.
func (s *site) uses(cut func(leaf, lane int) bool, gone func(leaf int) bool) (n int) {
	v := s.state.Now().Latest
	at := map[ib.GUID]int{}
	for i := range v.Tree.Hosts {
		at[v.Tree.Hosts[i].GUID] = v.Tree.Hosts[i].Leaf
	}
	plan := s.state.Now().Epoch.Plan
	for i := range plan.Servers() {
		from := at[plan.Server(i).GUID]
		if gone(from) {
			n++
		}
		for p := range plan.Phases() {
			if x := plan.Row(i).At(p); x.SendTo >= 0 {
				if to := at[plan.Server(x.SendTo).GUID]; to != from && (cut(from, x.Lane) || cut(to, x.Lane)) {
					n++
				}
			}
		}
	}
	return n
}

// TestDrains drains a cable, a spine, a leaf, and two parts together, lets them vanish
// and return, and gives them back.
func TestDrains(t *testing.T) {
	t.Parallel()
	healthy := fabric(4, 4)
	never := func(int) bool { return false }
	for _, c := range []struct {
		parts  []string
		cut    func(leaf, lane int) bool
		gone   func(leaf int) bool
		phases int
	}{
		{[]string{"Leaf001/7"}, func(leaf, lane int) bool { return leaf == 1 && lane == 2 }, never, 16},
		{[]string{"Spine002"}, func(_, lane int) bool { return lane == 2 }, never, 16},
		{[]string{"Leaf003"}, func(leaf, _ int) bool { return leaf == 3 }, func(leaf int) bool { return leaf == 3 }, 11},
		{[]string{"Leaf001/7", "0x" + fmt.Sprintf("%016x", 0x300000)}, func(leaf, lane int) bool { return lane == 0 || leaf == 1 && lane == 2 }, never, 24},
	} {
		t.Run(strings.Join(c.parts, "+"), func(t *testing.T) {
			s := running(t, healthy, hasty)
			before := s.state.Now().Epoch
			status, dry, text := s.order("/v1/drains", api.DrainRequest{Parts: c.parts, DryRun: true})
			if status != http.StatusOK || dry.Cost.Phases != c.phases || dry.Cost.PhasesNow != 15 || len(dry.Drains) != len(c.parts) || len(s.state.Now().Drains) != 0 {
				t.Fatalf("a dry run: %d %s, want %d phases", status, text, c.phases)
			}
			status, out, text := s.order("/v1/drains", api.DrainRequest{Parts: c.parts, Reason: "new fans"})
			if status != http.StatusOK || len(out.Drains) != len(c.parts) {
				t.Fatalf("%d %s", status, text)
			}
			s.drainsAre("safe", safe)
			s.settles(func(*store.Epoch, *view.View) bool { return true })
			drained := s.state.Now().Epoch
			if n := s.uses(c.cut, c.gone); n > 0 || drained.Report.Phases != c.phases || drained.Epoch == before.Epoch {
				t.Errorf("epoch %d after %d has %d phases, and uses what is drained %d times", drained.Epoch, before.Epoch, drained.Report.Phases, n)
			}
			s.quiet("drained")
			for i, f := range []*topology.Fabric{pulled(t, healthy, c.parts), healthy} {
				s.sweep(f)
				s.rests(f)
				if now := s.state.Now().Epoch; now.Epoch != drained.Epoch {
					t.Errorf("pulled or put back (%d): epoch %d after %d, because of %v", i, now.Epoch, drained.Epoch, now.What)
				}
				s.quiet("pulled or put back")
				if !safe(s.state.Now().Drains) {
					t.Errorf("it is safe no more: %+v", s.state.Now().Drains)
				}
			}
			if status, _, text = s.order("/v1/undrain", api.Undrain{Parts: c.parts}); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Epoch > drained.Epoch })
			if n := len(phasetable.Changes(before.Plan, s.state.Now().Epoch.Plan)); n > 0 || len(s.state.Now().Drains) > 0 {
				t.Errorf("given back, %d pairs have other lanes than before; drains %v", n, s.state.Now().Drains)
			}
		})
	}
}

// pulled returns the fabric without some parts, as a sweep finds it.
func pulled(t *testing.T, f *topology.Fabric, parts []string) *topology.Fabric {
	t.Helper()
	var cables []topology.PortRef
	for _, part := range parts {
		left := f.Clone()
		_, err := left.Fail(part)
		ok(t, err)
		for i := range f.Nodes {
			for p := range f.Nodes[i].Ports {
				if r := (topology.PortRef{Node: int32(i), Port: uint8(p)}); f.At(r).Connected() && !left.At(r).Connected() {
					cables = append(cables, r)
				}
			}
		}
	}
	return f.Without(cables...)
}

// rests waits until the daemon has completed its work for a fabric, with a new plan or
// without.
func (s *site) rests(f *topology.Fabric) {
	s.t.Helper()
	f, err := topology.ReadSubnetLst(fabgen.SubnetLst(f)) // adapters without a cable are missing from it
	ok(s.t, err)
	lids, err := os.ReadFile(filepath.Join(s.dir, "guid2lid"))
	ok(s.t, err)
	ranges, err := topology.ReadGUID2LID(lids)
	ok(s.t, err, f.ApplyGUID2LID(ranges))
	for {
		if v := s.state.Now().Latest; s.state.Now().Status().State == "idle" && s.state.Now().Change.Settled && v.Fabric.Hash() == f.Hash() {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			s.t.Fatalf("does not settle: %+v", s.Daemon.backend.Status())
		}
	}
}

// quiet fails if a warning above severity info is in force, except those about OpenSM's
// settings in this test.
func (s *site) quiet(when string) {
	s.t.Helper()
	for _, w := range s.health.List(time.Now()) {
		if settings := []string{opensm.DumpDirWrong, opensm.LFTsFileMissing, opensm.RoutingEngineWrong, opensm.CacheDirWrong}; w.Severity != health.Info && !slices.Contains(settings, w.Code) {
			s.t.Errorf("%s: %+v", when, w)
		}
	}
}

// TestDrainsLast checks that drains survive a restart, even if the part is absent by
// then, and end at their time.
func TestDrainsLast(t *testing.T) {
	t.Parallel()
	healthy := fabric(4, 4)
	s := running(t, healthy, hasty)
	if status, _, text := s.order("/v1/drains", api.DrainRequest{Parts: []string{"Spine002"}}); status != http.StatusOK {
		t.Fatal(text)
	}
	s.drainsAre("safe", func(all []exclusions.Drain) bool { return len(all) == 1 && safe(all) })
	soon := time.Now().Add(time.Second)
	if status, _, text := s.order("/v1/drains", api.DrainRequest{Parts: []string{"Leaf000"}, At: soon, Until: soon.Add(5 * time.Second)}); status != http.StatusOK {
		t.Fatal(text)
	}
	s.drainsAre("safe, and one scheduled unless this took until its time", func(all []exclusions.Drain) bool {
		return len(all) == 2 && all[0].State == exclusions.Safe && (all[1].State == exclusions.Scheduled || !time.Now().Before(soon))
	})
	s.cancel()
	ok(t, <-s.ended)
	last := s.state.Now().EpochNumber()
	again := daemonIn(t, s.dir)
	if all := again.excluder.drains.List(); len(all) != 2 || all[0].State != exclusions.Draining || all[0].Name != "Spine002" {
		t.Fatalf("after a restart: %+v", all)
	}
	again.cfg.OpenSM.DumpCommand = s.cfg.OpenSM.DumpCommand
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := &site{Daemon: again, t: t, dir: s.dir, ctx: ctx, cancel: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- n.Run(ctx) }()
	n.settles(func(*store.Epoch, *view.View) bool { return true })
	n.drainsAre("as before once it was looked at, and one expired", func(all []exclusions.Drain) bool { return len(all) == 1 && all[0].State == exclusions.Safe })
	n.settles(func(e *store.Epoch, _ *view.View) bool { return e.Report.Servers == 16 })
	if e := n.state.Now().Epoch; e.Epoch < last || e.Report.Servers != 16 || e.Report.Phases != 16 {
		t.Errorf("epoch %d after %d: %+v", e.Epoch, last, e.Report)
	}
	cancel()
	ok(t, <-n.ended)
}

// TestDrainRequests checks that senseless requests are refused with the reason.
func TestDrainRequests(t *testing.T) {
	s := running(t, fabric(4, 4), hasty)
	past := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		path   string
		q      any
		status int
		text   string
	}{
		{"/v1/drains", api.DrainRequest{}, 400, "nothing to drain"},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Spine02"}}, 400, `did you mean \"Spine002\"?`},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Hca0003"}}, 400, "Hca0003 is a host"},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Leaf001/1"}}, 400, "port 1 of Leaf001 has no cable between a leaf and a spine"},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Leaf001/x"}}, 400, `\"x\" is not a port of Leaf001`},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Leaf001/5", "Spine000/2"}}, 400, "Leaf001 port 5 – Spine000 port 2 is named twice"},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Leaf001"}, Until: past}, 400, "before it begins"},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Leaf000", "Leaf001", "Leaf002", "Leaf003"}}, 409, "no server would be left"},
		{"/v1/drains", api.DrainRequest{Parts: []string{"Leaf001/5", "Leaf001/6", "Leaf001/7", "Leaf001/8"}}, 409, "share no lane"},
		{"/v1/undrain", api.Undrain{}, 400, "nothing to give back"},
		{"/v1/undrain", api.Undrain{Parts: []string{"Spine001"}}, 404, `\"Spine001\" is not drained`},
	} {
		if status, _, text := s.order(c.path, c.q); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %+v: %d %s, want %d with %q", c.path, c.q, status, text, c.status, c.text)
		}
	}
	if n := len(s.state.Now().Drains); n > 0 {
		t.Errorf("%d parts are drained all the same", n)
	}
}

// TestDrainPreviews requests the cost of draining a part and of giving it back. Neither
// changes the drains, and the fabric without drains costs what it cost before.
func TestDrainPreviews(t *testing.T) {
	s := running(t, fabric(4, 4), hasty)
	before := s.state.Now().Epoch.Report.Phases
	_, first, text := s.order("/v1/drains", api.DrainRequest{Parts: []string{"Leaf001"}})
	if first.Cost == nil {
		t.Fatal(text)
	}
	s.drainsAre("safe", func(all []exclusions.Drain) bool { return len(all) == 1 && safe(all) })
	for path, q := range map[string]any{"/v1/drains": api.DrainRequest{Parts: []string{"Leaf001"}, DryRun: true}, "/v1/undrain": api.Undrain{Parts: []string{"Leaf001"}, DryRun: true}} {
		status, out, text := s.order(path, q)
		if all := s.state.Now().Drains; status != http.StatusOK || out.Cost == nil || len(all) != 1 || all[0].Name != "Leaf001" {
			t.Fatalf("%s: %d %s; drained: %+v", path, status, text, all)
		}
		if want := map[string]int{"/v1/drains": first.Cost.Phases, "/v1/undrain": before}[path]; out.Cost.Phases != want {
			t.Errorf("%s would give %d phases, want %d", path, out.Cost.Phases, want)
		}
	}
	if status, _, text := s.order("/v1/undrain", api.Undrain{Parts: []string{"Leaf001"}}); status != http.StatusOK {
		t.Errorf("given back: %d %s", status, text)
	}
}

package main

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/testbed/programs"
)

var small = fabgen.Spec{Spines: 6, Leaves: 6}

// TestSimGrid: SimGrid agrees with packets and sim on FT(2;6,6), healthy and with a dead cable,
// on forsd's tables and on min-hop's, there also with nine dead cables.
func TestSimGrid(t *testing.T) {
	programs.Needs(t, "smpicc", "smpirun")
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
	r := runner{dir: t.TempDir(), bytes: 1 << 20, hardware: packets.HDR}
	if err := r.compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dead      int
		by        func(context.Context, fabgen.Spec, int) (*site, error)
		exchanges int
		atOnce    float64 // of the first exchange, by the busiest link
	}{{0, byForsd, 5, 1}, {1, byForsd, 9, 35. / 36}, {1, byMinHop, 2, 35. / 60}, {9, byMinHop, 2, 35. / 72}} {
		s, err := c.by(t.Context(), small, c.dead)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.list) != c.exchanges {
			t.Errorf("%d exchanges, want %d", len(s.list), c.exchanges)
		}
		for i := range s.list {
			m, err := r.measure(t.Context(), s, &s.list[i])
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d dead cables, %s, %s: SimGrid %.3f, packets %.3f, sim %.3f", c.dead, m.tables, m.name, m.simgrid, m.packets, m.loads)
			if err := m.judge(); err != nil {
				t.Error(err)
			}
			if packets, _ := m.apart(); packets && m.how == "at-once" && c.dead < 9 {
				t.Errorf("%s, at once: SimGrid %.3f, packets %.3f", m.tables, m.simgrid, m.packets)
			}
			if i == 0 && math.Abs(m.simgrid/c.atOnce-1) > tolerance {
				t.Errorf("%s, %d dead cables, at once: %.3f, want %.3f", m.tables, c.dead, m.simgrid, c.atOnce)
			}
		}
	}
}

// TestLostRoutes: a platform is not written if the tables do not lead to the destination.
func TestLostRoutes(t *testing.T) {
	s, err := byForsd(t.Context(), small, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, second := s.list[0].rows[0], s.list[0].rows[1] // rank 0 to 1, rank 1 to 2
	for want, lid := range map[string]ib.LID{"has no entry": 40000, "leads from rank 0 not to rank 1": second.DLID} {
		first.DLID = lid
		if err := writePlatform(io.Discard, s.fabric, s.tables, s.hosts, []sim.Row{first}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

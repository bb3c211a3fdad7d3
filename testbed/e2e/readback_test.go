package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/built"
)

// TestReadBackWays pulls and puts back a cable with forsd reading the switches
// itself, by dump_fts as configured, and by dump_fts because the configured port does
// not exist. The tables are confirmed all the ways; the times of the first two are
// printed, with FORS_LONG=1 on the LHCb fabric.
func TestReadBackWays(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(built.UmadHeader); err != nil {
		t.Skipf("forsd cannot read switches itself here: install libibumad-dev: %v", err)
	}
	site := small
	if long {
		site = lhcb
	}
	for _, c := range []struct {
		umad, says string
		site       Options
	}{
		{"auto", "tables are read out of the switches directly", site()},
		{"off", "opensm.umad is off", site()},
		{"mlx5_7:1", "there is no InfiniBand port mlx5_7:1", small()},
	} {
		t.Run(c.umad, func(t *testing.T) {
			o := c.site
			o.Umad = c.umad
			x, healthy := up(t, 4*time.Minute, o)
			const leaf, lane = 2, 1
			at := healthy.Tree.Leaves[leaf]
			port := int(at.Cables[lane].LeafPort)
			var took []float64
			for range 2 {
				x.ok(x.Sim.Unlink(x.ctx, at.Name, port))
				st := x.settled(Cable(leaf, lane, "missing"))
				took = append(took, 1e3*st.LastEvent.ReadBackSeconds-1e3*st.LastEvent.ProgrammedSeconds)
				x.check()
				x.ok(x.Sim.Relink(x.ctx, at.Name, port))
				st = x.settled(Cable(leaf, lane, "full"))
				took = append(took, 1e3*st.LastEvent.ReadBackSeconds-1e3*st.LastEvent.ProgrammedSeconds)
			}
			x.check()
			slices.Sort(took)
			t.Logf("opensm.umad %s: read back in %.0f ms, the median of %.0f", c.umad, took[len(took)/2], took)
			log, err := os.ReadFile(filepath.Join(x.Dir(), "forsd.log"))
			x.ok(err)
			if n := strings.Count(string(log), "tables are read out of the switches"); n != 1 || !strings.Contains(string(log), c.says) {
				t.Errorf("the log says %d times how the switches are read, and lacks %q", n, c.says)
			}
		})
	}
}

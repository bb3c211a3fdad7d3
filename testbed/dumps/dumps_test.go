package dumps

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// failures is how many cables fail, one at a time.
const failures = 20

// row is a line of the table.
type row struct {
	name     string
	*planned        // nil if the fabric is not planned
	why      string // it is not planned
	worst    [2]int // the longest plan for base LIDs after a failure, and its bound
	cut      int    // failures that cut hosts off
	routed   []routed
}

// TestLookAlikes runs fabrics of a generator.
func TestLookAlikes(t *testing.T) {
	if err := ibsim.Available(); err != nil {
		t.Fatal(err)
	}
	const seed = 1
	alike := fabgen.LookAlikes(seed)
	runAll(t, slices.Sorted(maps.Keys(alike)), func(name string) *topology.Fabric { return alike[name] })
}

// runAll runs fabrics in parallel, and prints the table.
func runAll(t *testing.T, names []string, fabric func(name string) *topology.Fabric) {
	rows := make([]*row, len(names))
	t.Run("fabrics", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rows[i] = &row{name: name}
				rows[i].run(t, fabric(name))
			})
		}
	})
	show(t, rows)
}

// TestDumps runs every dump of the directory FORS_DUMPS; other files are named and left out.
// Files that hold one fabric are run once.
func TestDumps(t *testing.T) {
	dir := os.Getenv("FORS_DUMPS")
	if dir == "" {
		t.Skip("FORS_DUMPS names no directory of dumps")
	}
	if err := ibsim.Available(); err != nil {
		t.Fatal(err)
	}
	fabrics, first := map[string]*topology.Fabric{}, map[string]string{} // by name; by hash, the name
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		f, source, err := topology.Read(data)
		switch {
		case source == topology.SourceUnknown:
			if wanted, err := report.ReadIntended(data); err == nil {
				t.Logf("%s is a list of %d cables", name, len(wanted))
			} else {
				t.Logf("%s is neither a dump of a fabric nor a list of cables: %v", name, err)
			}
			return nil
		case err != nil:
			t.Errorf("%s: %v", name, err)
			return nil
		}
		f.SM = 0
		if same := first[f.Hash()]; same != "" {
			t.Logf("%s holds the fabric of %s", name, same)
			return nil
		}
		first[f.Hash()], fabrics[name] = name, f
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("%s holds no dump", dir)
	}
	runAll(t, names, func(name string) *topology.Fabric { return fabrics[name] })
}

// run plans a fabric, makes cables fail, and lets OpenSM route it.
func (r *row) run(t *testing.T, f *topology.Fabric) {
	base, err := topology.Recognise(f)
	if err != nil {
		if r.why = err.Error(); !errors.As(err, new(*topology.NotFatTree)) {
			t.Error(err)
		}
		return
	}
	whole, err := plan(t.Context(), f, f, base, t.TempDir(), nil)
	if err != nil {
		t.Fatalf("as it is: %v", err)
	}
	r.fail(t, f, base, whole)
	r.compare(t, f)
}

// fail makes cables fail one at a time, with -short only some.
func (r *row) fail(t *testing.T, f *topology.Fabric, base *topology.Baseline, whole *planned) {
	sum := fnv.New64()
	sum.Write([]byte(f.Hash()))
	rng := rand.New(rand.NewPCG(sum.Sum64(), 1))
	n := failures
	if testing.Short() {
		n = 4
	}
	without, labels := make([]*topology.Fabric, n), make([]string, n)
	for i := range n {
		without[i] = f.Clone()
		cable := failure(without[i], rng)
		labels[i] = f.CableLabel(cable)
		without[i].Disconnect(cable)
	}
	plans, errs := make([]*planned, n), make([]error, n)
	_ = parallel.All(n, runtime.NumCPU(), func(int) func(int) error {
		return func(i int) error {
			plans[i], errs[i] = plan(t.Context(), without[i], f, base, t.TempDir(), whole)
			return nil
		}
	})
	for i, p := range plans {
		switch {
		case errors.As(errs[i], new(*planner.TooManyUnreachable)) && unmet(without[i]):
			r.cut++
		case errs[i] != nil:
			t.Errorf("without the cable %s: %v", labels[i], errs[i])
		case p.base-p.bound > r.worst[0]-r.worst[1] || r.worst[0] == 0:
			r.worst = [2]int{p.base, p.bound}
		}
	}
}

// unmet reports whether more than one in a hundred pairs of hosts are at switches that have no
// neighbour in common, as trees of two levels need.
func unmet(f *topology.Fabric) bool {
	hosts, above := map[int32]int{}, map[int32]map[int32]bool{}
	total := 0
	for i := range f.Nodes {
		for _, port := range f.Nodes[i].Ports {
			switch {
			case f.Nodes[i].Kind != topology.Switch || !port.Up():
			case f.Nodes[port.Peer].Kind == topology.Switch:
				if above[int32(i)] == nil {
					above[int32(i)] = map[int32]bool{}
				}
				above[int32(i)][port.Peer] = true
			case f.Nodes[port.Peer].Role.TakesPart():
				hosts[int32(i)]++
				total++
			}
		}
	}
	pairs := 0
	for i, n := range hosts {
		for j, m := range hosts {
			meet := i == j
			for k := range above[i] {
				meet = meet || above[j][k]
			}
			if !meet {
				pairs += n * m
			}
		}
	}
	return 100*pairs > total*(total-1)
}

// compare makes OpenSM bring the fabric up, plans it as OpenSM sees it if that differs in hosts
// from the dump, and walks the tables of all. No engine of OpenSM may be better than forsd for
// programs that send to base LIDs, in step or at once.
func (r *row) compare(t *testing.T, f *topology.Fabric) {
	engines, err := route(t.Context(), f, func(seen *topology.Fabric) (servers []uint64, err error) {
		base, err := topology.Recognise(seen)
		if err != nil {
			return nil, err
		}
		r.planned, err = plan(t.Context(), seen, seen, base, t.TempDir(), nil)
		if err != nil {
			return nil, err
		}
		return r.servers, nil
	})
	if err != nil {
		t.Errorf("by OpenSM: %v", err)
		r.planned, r.why = nil, err.Error()
		return
	}
	r.routed = engines
	for _, e := range engines {
		if e.loads.Unreachable > r.loads.Unreachable {
			continue // the rest looks good without the hosts cut off
		}
		if e.loads.InStep < r.base || r.base == 0 {
			t.Errorf("%s is better in step: %d, and the plan for base LIDs has %d phases", e.engine, e.loads.InStep, r.base)
		}
		if e.loads.AtOnce < r.loads.AtOnce {
			t.Errorf("%s is better at once: %d on the busiest cable, and %d by forsd's tables", e.engine, e.loads.AtOnce, r.loads.AtOnce)
		}
	}
}

// after describes the effect of failures.
func (r *row) after() string {
	text := fmt.Sprintf("%d (%d)", r.worst[0], r.worst[1])
	if r.cut > 0 {
		text = fmt.Sprintf("%d of %d part the hosts", r.cut, failures)
	}
	return text
}

// show prints the table.
func show(t *testing.T, rows []*row) {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nfabric\tlevels\tservers\tleft out\tphases\tbound\tbusiest\tafter a failure")
	for _, e := range engines {
		fmt.Fprintf(w, "\t%s", e)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		if r.planned == nil {
			fmt.Fprintf(w, "%s\t%s\n", r.name, r.why)
			continue
		}
		p := r.planned
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s", r.name, p.kind, len(p.servers), p.away, p.base, p.bound, p.loads.AtOnce, r.after())
		for _, e := range r.routed {
			fmt.Fprintf(w, "\t%s", e.text(p.loads.Unreachable))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	t.Logf("Programs that send to base LIDs. forsd: phases of the plan and their bound, transfers on the busiest cable at once, phases (bound) of the worst of %d failures. Engines of OpenSM: time of the shift in phases / busiest cable; = for one that took min-hop instead.\n%s", failures, &out)
}

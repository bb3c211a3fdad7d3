package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// object is a JSON object.
type object = map[string]any

// site is a site as the judge can read it: the fabric as it was accepted and as it is, its
// tables, and the answers of forsd.
type site struct {
	name              string
	whole, discovered []byte
	tables            []byte
	answers           map[string]object
	rows              map[string][]Transfer // of plans, by the path of their phases
}

func newSite(name string, f *topology.Fabric) *site {
	return &site{name: name, whole: fabgen.Ibnetdiscover(f), rows: map[string][]Transfer{}, answers: map[string]object{
		"/v1/drains": {}, "/v1/cables": {}, "/v1/jobs": {}, "/v1/topology": {},
	}}
}

// judge makes a judge look at the site.
func (s *site) judge(j *Site) error {
	whole, err := ReadFabric(s.whole)
	if err != nil {
		return err
	}
	f, err := ReadFabric(s.discovered)
	if err != nil {
		return err
	}
	f.As(whole)
	t, err := ReadTables(s.tables)
	if err != nil {
		return err
	}
	return j.judge(s.answer, f, t)
}

// answer is forsd's answer.
func (s *site) answer(path string) ([]byte, error) {
	if rows, ok := s.rows[path]; ok {
		out := []byte("phase,src_guid,dst_guid,lane,dlid\n")
		for _, r := range rows {
			out = fmt.Appendf(out, "%d,0x%016x,0x%016x,%d,%d\n", r.Phase, r.Src, r.Dst, r.Lane, r.DLID)
		}
		return out, nil
	}
	if x, ok := s.answers[path]; ok {
		return json.Marshal(x)
	}
	return nil, errNone
}

// The paths of plans.
const (
	byLanes, byLanesRows = "/v1/plan", "/v1/plan/phases?format=csv"
	byBase, byBaseRows   = "/v1/plan?lids=base", "/v1/plan/phases?format=csv&lids=base"
	ofJob, ofJobRows     = "/v1/jobs/7/plan", "/v1/jobs/7/phases?format=csv"
	job                  = "/v1/jobs/7"
)

// add publishes a plan.
func (s *site) add(t *testing.T, document, phases string, table *phasetable.Table, report any) {
	t.Helper()
	var csv bytes.Buffer
	if err := phasetable.WriteCSV(&csv, table); err != nil {
		t.Fatal(err)
	}
	rows, err := ReadCSV(csv.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var x object
	if err := json.Unmarshal(text, &x); err != nil {
		t.Fatal(err)
	}
	x["epoch"] = 7
	s.answers[document], s.rows[phases] = x, rows
}

// write prints the tables.
func (s *site) write(t *testing.T, tables *lft.Tables) {
	t.Helper()
	var out bytes.Buffer
	if err := tables.Write(&out, nil); err != nil {
		t.Fatal(err)
	}
	s.tables = out.Bytes()
}

// show makes forsd show the hosts of a tree, and the plan's figures in its status.
func (s *site) show(t *topology.FatTree) {
	var hosts []object
	for i := range t.Hosts {
		if h := &t.Hosts[i]; h.Leaf >= 0 {
			hosts = append(hosts, object{"guid": h.GUID.String(), "leaf": t.Leaves[h.Leaf].Name, "server": h.Server || h.Out})
		}
	}
	s.answers["/v1/topology"]["hosts"] = hosts
	s.answers["/v1/status"] = s.answers[byLanes]
}

// drained takes out a cable or a leaf.
func (s *site) drained(t *topology.FatTree, kind string, leaf, lane int) {
	l := &t.Leaves[leaf]
	d := object{"kind": kind, "name": l.Name, "guid": l.GUID.String(), "state": "safe"}
	if kind == "cable" {
		d["port"] = l.Cables[lane].LeafPort
	}
	list, _ := s.answers["/v1/drains"]["drains"].([]object)
	s.answers["/v1/drains"]["drains"] = append(list, d)
	for k := range t.Lanes {
		if kind == "leaf" || k == lane {
			t.Hold(leaf, k)
		}
	}
	for i := range t.Hosts {
		if h := &t.Hosts[i]; kind == "leaf" && h.Leaf == leaf {
			h.Server, h.Out = false, true
		}
	}
	t.Servers = slices.DeleteFunc(t.Servers, func(i int) bool { return t.Hosts[i].Out })
}

// two is a site of two levels, with a job of some of its servers if members are given.
func (s *site) two(t *testing.T, tree *topology.FatTree, members []ib.GUID) *site {
	t.Helper()
	s.discovered = fabgen.Ibnetdiscover(tree.Fabric)
	all := 1.0
	made, err := planner.Make(t.Context(), tree, planner.Settings{MaxUnreachable: &all})
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	s.write(t, made.Tables)
	s.add(t, byLanes, byLanesRows, made.Schedule.Table(7), made.Report())
	if made.Base != nil {
		s.add(t, byBase, byBaseRows, made.Base.Table(7), made.Base.Report())
	}
	s.show(tree)
	if len(members) == 0 {
		return s
	}
	plan, err := planner.PlanJob(t.Context(), tree, members, planner.Settings{}, made.Tables)
	if tooMany := (*planner.TooManyUnreachable)(nil); errors.As(err, &tooMany) {
		return s
	} else if err != nil {
		t.Fatalf("%s: job: %v", s.name, err)
	}
	s.add(t, ofJob, ofJobRows, plan.Table(7), plan.Report())
	var hosts []object
	for _, g := range members {
		hosts = append(hosts, object{"guid": g.String()})
	}
	s.answers["/v1/jobs"]["jobs"] = []object{{"id": 7}}
	s.answers[job] = object{"id": 7, "epoch": 7, "servers": len(plan.Tree.Servers), "hosts": hosts}
	return s
}

// three is a site of three levels.
func (s *site) three(t *testing.T, tree *topology.PodTree) *site {
	t.Helper()
	s.discovered = fabgen.Ibnetdiscover(tree.Fabric)
	all := 1.0
	made, err := podplan.Make(t.Context(), tree, podplan.Settings{MaxUnreachable: &all})
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	s.write(t, made.Tables)
	s.add(t, byLanes, byLanesRows, made.Rows(7), made.Report())
	s.show(tree.Exchange())
	return s
}

// drawTwo draws a tree of two levels with damage, parts that are drained, and a job.
func drawTwo(t *testing.T, rng *rand.Rand) *site {
	spec := fabgen.Spec{Spines: 2 + rng.IntN(5), Leaves: 2 + rng.IntN(4), Cables: 1 + rng.IntN(3)/2, Shuffle: rng.Uint64N(3)}
	for range spec.Leaves {
		spec.Hosts = append(spec.Hosts, 1+rng.IntN(spec.Spines+1))
	}
	if spec.Leaves > 2 && spec.Shuffle == 1 {
		spec.Hosts[spec.Leaves/2] = 0
	}
	for 1<<spec.LMC < spec.Spines*spec.Cables && rng.IntN(4) > 0 {
		spec.LMC++
	}
	f := fabgen.Generate(spec)
	s := newSite(fmt.Sprintf("%+v", spec), f)
	var cables []topology.PortRef
	for i := range spec.Leaves {
		leaf := f.Find(fabgen.LeafGUID + ib.GUID(i))
		for _, p := range f.Trunks(leaf) {
			cables = append(cables, topology.PortRef{Node: leaf, Port: p})
		}
	}
	tree := fabgen.Fitted(t, f, func(f *topology.Fabric) {
		for range rng.IntN(4) {
			f.Disconnect(cables[rng.IntN(len(cables))])
		}
		if c := cables[rng.IntN(len(cables))]; rng.IntN(3) == 0 && f.At(c).Up() {
			f.At(c).Rate.Width = 1
		}
	})
	for range rng.IntN(3) {
		if leaf, lane := rng.IntN(spec.Leaves), rng.IntN(tree.Lanes); tree.LaneUp(leaf, lane) {
			s.drained(tree, "cable", leaf, lane)
		}
	}
	if rng.IntN(4) == 0 {
		s.drained(tree, "leaf", rng.IntN(spec.Leaves), 0)
	}
	if len(tree.Servers) == 0 {
		return nil
	}
	var members []ib.GUID
	for _, i := range tree.Servers {
		if rng.IntN(2) == 0 {
			members = append(members, tree.Hosts[i].GUID)
		}
	}
	return s.two(t, tree, members)
}

// drawThree draws a tree of three levels with damage.
func drawThree(t *testing.T, rng *rand.Rand) *site {
	spec := fabgen.TreeSpec{Pods: 2 + rng.IntN(2), Leaves: 1 + rng.IntN(3), Mids: 1 + rng.IntN(3), Tops: 1 + rng.IntN(3), Hosts: 1 + rng.IntN(3),
		TopCables: 1 + rng.IntN(3)/2, LMC: uint8(rng.IntN(3)), Shuffle: rng.Uint64N(3)}
	f := fabgen.GenerateTree(spec)
	s := newSite(fmt.Sprintf("%+v", spec), f)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		return nil // too small for three levels
	}
	for _, part := range spec.Draw(rng, fabgen.Damage{LeafCables: rng.IntN(2), TopCables: rng.IntN(3)}) {
		_, _ = f.Fail(part) // a cable may be drawn by both of its ends
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.three(t, tree)
}

// TestGood checks that the judge accepts 1000 sites, and ibdmchk the tables of some.
func TestGood(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 1))
	jobs, drained := 0, 0
	for n := 0; n < 1000; {
		draw := drawTwo
		if rng.IntN(3) == 0 {
			draw = drawThree
		}
		s := draw(t, rng)
		if s == nil {
			continue
		}
		if err := s.judge(&Site{Everyone: true}); err != nil {
			t.Errorf("%d, %s: %v", n, s.name, err)
		}
		n++
		if s.answers[job] != nil {
			jobs++
		}
		if s.answers["/v1/drains"]["drains"] != nil {
			drained++
		}
	}
	t.Logf("%d with jobs, %d with parts that are drained", jobs, drained)
}

// TestRanks finds the levels of fabrics whose first and last leaves have lost their hosts.
func TestRanks(t *testing.T) {
	three := fabgen.GenerateTree(fabgen.KAry(4))
	for i := range three.Nodes {
		for p := range three.Nodes[i].Ports {
			at := topology.PortRef{Node: int32(i), Port: uint8(p)}
			if n := &three.Nodes[i]; (n.Name == "Leaf000" || n.Name == "Leaf007") && p > 0 && three.At(at).Up() && !three.Trunk(at) {
				three.Disconnect(at)
			}
		}
	}
	for name, f := range map[string]*topology.Fabric{
		"two levels":   fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, Hosts: []int{0, 2, 2, 0}}),
		"three levels": three,
	} {
		x, err := ReadFabric(fabgen.Ibnetdiscover(f))
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.nodes {
			want, is := map[string]int{"Leaf": 0, "Spin": 1, "Mid0": 1, "Top0": 2}[x.nodes[i].name[:4]]
			if is && x.rank[i] != want {
				t.Errorf("%s: %s is on level %d, want %d", name, x.nodes[i].name, x.rank[i], want)
			}
		}
	}
}

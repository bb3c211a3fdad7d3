package planner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// wayOf walks from a host to a LID by the tables, and returns the ports that the packet
// leaves switches by.
func wayOf(f *topology.Fabric, tables *lft.Tables, from *topology.Host, to ib.LID) (way []topology.PortRef, err error) {
	at := f.At(from.PortRef).Peer
	for range 8 {
		node := &f.Nodes[at]
		if node.Kind != topology.Switch {
			if p := f.At(way[len(way)-1]); node.Ports[p.PeerPort].LID > to || to >= node.Ports[p.PeerPort].LID+1<<node.Ports[p.PeerPort].LMC {
				return nil, fmt.Errorf("LID %d arrives at %s", to, node.Name)
			}
			return way, nil
		}
		out := topology.PortRef{Node: at, Port: tables.Port(tables.Find(node.GUID), to)}
		way = append(way, out)
		at = f.At(out).Peer
	}
	return nil, fmt.Errorf("LID %d does not arrive: %v", to, way)
}

// linksOf walks a plan on tables and returns the ports that it uses in each phase. It fails
// if two transfers of a phase use the same port, or if base is set and a transfer does not
// go to a base LID.
func linksOf(s *Schedule, tables *lft.Tables, base bool) (phases []map[topology.PortRef]bool, err error) {
	t := s.Tree
	for ph := range s.Rows.Phases {
		used := map[topology.PortRef]bool{}
		for src, d := range s.Rows.To[ph*len(t.Servers):][:len(t.Servers)] {
			if d < 0 {
				continue
			}
			dlid, dst := s.Rows.DLID[ph*len(t.Servers)+src], &t.Hosts[t.Servers[d]]
			if base && dlid != dst.LID {
				return nil, fmt.Errorf("%s is sent to at LID %d, not at its base LID %d", dst.Name, dlid, dst.LID)
			}
			way, err := wayOf(t.Fabric, tables, &t.Hosts[t.Servers[src]], dlid)
			if err != nil {
				return nil, err
			}
			for _, port := range way {
				if used[port] {
					return nil, fmt.Errorf("phase %d: two transfers leave by %v", ph, port)
				}
				used[port] = true
			}
		}
		phases = append(phases, used)
	}
	return phases, nil
}

// startJobs lets jobs of random hosts begin until so many hosts are taken, with lanes of
// their own where these are to be had.
func startJobs(t *testing.T, ft *topology.FatTree, hosts int, rng *rand.Rand) (jobs []Job) {
	t.Helper()
	free := rng.Perm(len(ft.Hosts))
	// Hosts in order of their leaf, from some leaf on, so that jobs are as a scheduler places them.
	slices.Sort(free)
	for id := uint64(1); len(ft.Hosts)-len(free) < hosts; id++ {
		size := min(len(free), 2+rng.IntN(60))
		job := Job{ID: id, Routed: true}
		for _, i := range free[:size] {
			job.Members = append(job.Members, ft.Hosts[i].GUID)
		}
		free = free[size:]
		lanes, err := OwnLanes(t.Context(), ft, &job, jobs)
		if err != nil && !errors.Is(err, fors.ErrNoOwnLanes) {
			t.Fatal(err)
		}
		job.Lanes = lanes
		jobs = append(jobs, job)
	}
	return jobs
}

// TestJobsSideBySide gives jobs lanes of their own, routes their base LIDs, and walks all
// plans on the tables: no link is used by two jobs, nor twice in a phase.
func TestJobsSideBySide(t *testing.T) {
	spec, without := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, 0
	for seed := range uint64(share(8, 2)) {
		rng := rand.New(rand.NewPCG(seed, 16))
		ft := fabgen.Damaged(t, spec, fabgen.DrawCables(rng, spec, int(seed%2)*9)...)
		jobs := startJobs(t, ft, 320, rng)
		s := Settings{Jobs: jobs}
		if !s.MayRoute(ft) {
			t.Fatal("base LIDs cannot be routed")
		}
		ft = Moves(ft, jobs)
		r, err := Make(t.Context(), ft, s)
		if err != nil {
			t.Fatal(err)
		}
		if r.Base == nil || r.Base.Check(r.Tables) != nil || verify.Tables(ft, r.Tables) != nil {
			t.Errorf("seed %d: the base plan of the fabric does not hold: %v", seed, r.Notes)
		}
		users := map[topology.PortRef]uint64{}
		for i := range jobs {
			j := &jobs[i]
			sub, shares := JobTree(ft, j, jobs)
			pinned, err := PlanJob(t.Context(), sub, j.Members, s, r.Tables)
			if err != nil {
				t.Fatal(err)
			}
			if r.Jobs[j.ID] == nil {
				t.Errorf("seed %d: %s is not routed", seed, j.name())
				continue
			}
			if len(j.Lanes) == 0 && len(leavesWithServers(sub)) > 1 {
				t.Logf("seed %d: %s has no lanes of its own, and shares those of %v", seed, j.name(), shares)
				if without++; len(shares) > 0 {
					continue
				}
			} else if base := r.Jobs[j.ID].Plan.Phases; base > fors.OwnLimit(r.Jobs[j.ID].least)*5/4 || pinned.Plan.Phases > fors.OwnLimit(len(j.Members)-1) {
				t.Errorf("seed %d: %s: %d phases for base LIDs, %d by lanes", seed, j.name(), base, pinned.Plan.Phases)
			}
			for way, plan := range []*Schedule{pinned, r.Jobs[j.ID]} {
				phases, err := linksOf(plan, r.Tables, way == 1)
				if err != nil {
					t.Fatalf("seed %d: %s: %v", seed, j.name(), err)
				}
				for _, used := range phases {
					for port := range used {
						if by, taken := users[port]; taken && by != j.ID {
							t.Fatalf("seed %d: %s and job %d both use %v", seed, j.name(), by, port)
						}
						users[port] = j.ID
					}
				}
			}
		}
	}
	if without > share(8, 1) {
		t.Errorf("%d jobs of several leaves have no lanes of their own", without)
	}
}

// TestRoutedJobsRemembered checks that after the loss of a cable only the job that owns the
// cable gets a new plan, and that the tables are the same as without a memory.
func TestRoutedJobsRemembered(t *testing.T) {
	spec := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	ft := fabgen.Damaged(t, spec)
	jobs := startJobs(t, ft, 320, rand.New(rand.NewPCG(2, 16)))
	s := Settings{Jobs: jobs, Memory: &Memory{}}
	before, err := Route(t.Context(), Moves(ft, jobs), s)
	if err != nil {
		t.Fatal(err)
	}
	leaf, lane := 5, 7
	holder := holders(ft, jobs)[leaf*ft.Lanes+lane]
	cut := Moves(fabgen.Damaged(t, spec, [2]int{leaf, lane}), jobs)
	after, err := Route(t.Context(), cut, s)
	if err != nil {
		t.Fatal(err)
	}
	for id, x := range after.Jobs {
		if anew := x.Plan != before.Jobs[id].Plan; anew != (id == holder) {
			t.Errorf("job %d is planned anew: %t; job %d has the cable", id, anew, holder)
		}
	}
	s.Memory = nil
	plain, err := Route(t.Context(), cut, s)
	if err != nil {
		t.Fatal(err)
	}
	if n := lft.Changes(plain.Tables, after.Tables).Entries; n > 0 || holder == 0 || len(after.Jobs) != len(jobs) {
		t.Errorf("%d entries are others than without a memory; %d of %d jobs are routed", n, len(after.Jobs), len(jobs))
	}
}

// name names the job in messages.
func (j *Job) name() string { return fmt.Sprintf("job %d of %d hosts", j.ID, len(j.Members)) }

// TestRoutedOnOneLID routes base LIDs of jobs where servers have one LID, or fewer than
// lanes: the fabric's plan then goes over what they leave.
func TestRoutedOnOneLID(t *testing.T) {
	for _, lmc := range []uint8{0, 2, 3} {
		ft := fabgen.Damaged(t, fabgen.Spec{Spines: 6, Leaves: 6, LMC: lmc}, [2]int{1, 2})
		jobs := []Job{{ID: 1, Members: every(ft, 2), Routed: true}, {ID: 2, Members: every(ft, 1)[1:2], Routed: true}}
		s := Settings{Jobs: jobs}
		if !s.MayRoute(ft) {
			t.Fatalf("LMC %d: base LIDs cannot be routed", lmc)
		}
		r, err := Make(t.Context(), Moves(ft, jobs), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check(r.Tables); err != nil {
			t.Errorf("LMC %d: %v", lmc, err)
		}
		if base := r.Jobs[1]; base == nil || base.Plan.Phases != 17 {
			t.Errorf("LMC %d: the routed job has the plan %v", lmc, base)
		} else if _, err := linksOf(base, r.Tables, true); err != nil {
			t.Errorf("LMC %d: %v", lmc, err)
		}
	}
	for _, spec := range []fabgen.Spec{{Spines: 8, Leaves: 6, LMC: 3}, {Spines: 3, Cables: 2, Leaves: 6, LMC: 3, Hosts: []int{6}}} {
		if (Settings{}).MayRoute(fabgen.Damaged(t, spec)) {
			t.Errorf("base LIDs may be routed on %+v", spec)
		}
	}
}

// TestJobFixed plans jobs for base LIDs on existing routes, within 3 % of the bound of the
// lanes that the tables give: max(P−1, the busiest cable).
func TestJobFixed(t *testing.T) {
	spec := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	for _, dead := range []int{0, 1, 9} {
		rng := rand.New(rand.NewPCG(uint64(dead), 103))
		worst := 1.0
		for range share(100, 4) {
			ft := fabgen.Damaged(t, spec, fabgen.DrawCables(rng, spec, dead)...)
			tables, err := lft.Build(ft)
			if err != nil {
				t.Fatal(err)
			}
			var members []ib.GUID
			for _, i := range rng.Perm(360)[:2+rng.IntN(359)] {
				members = append(members, ft.Hosts[i].GUID)
			}
			s, err := PlanJobFixed(t.Context(), Restrict(ft, members), tables)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := linksOf(s, tables, true); err != nil {
				t.Error(err)
			}
			if s.least > 0 {
				worst = max(worst, float64(s.Plan.Phases)/float64(s.least))
			}
		}
		t.Logf("%d dead cables: %.4f times the bound at worst", dead, worst)
		if worst > 1.03 {
			t.Errorf("%d dead cables: a plan for base LIDs as they are routed has %.4f times the phases of its bound", dead, worst)
		}
	}
}

package fors

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// cluster is a tree whose hosts and lanes jobs hold.
type cluster struct {
	*Tree
	free    [][]int  // [leaf] slots that no job has
	held    [][]bool // [leaf][lane] held by a job
	holders []int    // [leaf] hosts of jobs that hold lanes
	hosts   int      // taken
	running []*tenant
	now     float64
}

// tenant is a job that runs.
type tenant struct {
	slots [][]int
	own   [][]bool // [leaf][lane]; nil if the job owns no lanes
	until float64
	plans []*Plan // by lanes, for one LID
}

func newCluster(t *Tree) *cluster {
	c := &cluster{Tree: t, holders: make([]int, len(t.Slots))}
	for leaf, slots := range t.Slots {
		c.free = append(c.free, slices.Clone(slots))
		c.held = append(c.held, make([]bool, len(t.Up[leaf])))
	}
	return c
}

// place finds hosts as Slurm's topology/tree does: on the leaf with the fewest free
// hosts that are enough, and until there is one, on the leaf with the most.
func (c *cluster) place(size int) [][]int {
	job := make([][]int, len(c.free))
	for size > 0 {
		best, rank := -1, [2]int{}
		for leaf, free := range c.free {
			n := len(free)
			if len(job[leaf]) > 0 || n == 0 {
				continue
			}
			r := [2]int{1, -n}
			if n >= size {
				r = [2]int{0, n}
			}
			if best < 0 || slices.Compare(r[:], rank[:]) < 0 {
				best, rank = leaf, r
			}
		}
		n := min(size, len(c.free[best]))
		job[best] = c.free[best][:n:n]
		size -= n
	}
	return job
}

// offer is what a job may have.
func (c *cluster) offer(job [][]int) Offer {
	o := Offer{Tree: &Tree{Lanes: c.Lanes, Slots: job}, Alive: c.Up, Elsewhere: make([]int, c.Lanes)}
	for leaf := range job {
		o.Rest = append(o.Rest, len(c.Slots[leaf])-c.holders[leaf]-len(job[leaf]))
		up := make([]bool, c.Lanes)
		for k := range up {
			if up[k] = c.Up[leaf][k] && !c.held[leaf][k]; up[k] && len(job[leaf]) == 0 {
				o.Elsewhere[k]++
			}
		}
		o.Up = append(o.Up, up)
	}
	return o
}

// begin lets a job run.
func (c *cluster) begin(t *testing.T, x *tenant) {
	c.running = append(c.running, x)
	slices.SortFunc(c.running, func(a, b *tenant) int { return cmp.Compare(a.until, b.until) })
	for leaf, slots := range x.slots {
		c.free[leaf] = slices.DeleteFunc(slices.Clone(c.free[leaf]), func(α int) bool { return slices.Contains(slots, α) })
		c.hosts += len(slots)
		if x.own == nil {
			continue
		}
		c.holders[leaf] += len(slots)
		for k, own := range x.own[leaf] {
			if own && (c.held[leaf][k] || !c.Up[leaf][k] || len(slots) == 0) {
				t.Fatalf("lane %d of leaf %d is not free, or of no use", k, leaf)
			}
			c.held[leaf][k] = c.held[leaf][k] || own
		}
	}
}

// end ends the job that ends first.
func (c *cluster) end() {
	x := c.running[0]
	c.running, c.now = c.running[1:], x.until
	for leaf, slots := range x.slots {
		c.free[leaf] = append(slices.Clone(c.free[leaf]), slots...)
		slices.Sort(c.free[leaf])
		c.hosts -= len(slots)
		if x.own == nil {
			continue
		}
		c.holders[leaf] -= len(slots)
		for k, own := range x.own[leaf] {
			c.held[leaf][k] = c.held[leaf][k] && !own
		}
	}
}

// census counts jobs of several leaves.
type census struct {
	several  int
	isolated int     // with lanes of their own and a plan by lanes of at most 1.05 (P−1) phases
	longer   int     // with a plan for one LID beyond that
	damaged  int     // of these, with one beyond that on all lanes that are up, too
	worst    float64 // phases of such a plan, as a multiple of P−1
}

// starts starts jobs of up to most servers one after the other at 90 % load. A plan for
// one LID beyond 1.05 (P−1) phases must be one that no lanes which were free make shorter.
func (c *cluster) starts(t *testing.T, jobs, most int, rng *rand.Rand) (n census) {
	t.Helper()
	for range jobs {
		size := 1 + rng.IntN(most)
		if rng.IntN(2) == 0 {
			size = int(math.Exp(rng.Float64() * math.Log(float64(most)+0.99)))
		}
		for 10*(c.hosts+size) > 9*c.Servers() {
			c.end()
		}
		x := &tenant{slots: c.place(size), until: c.now + rng.ExpFloat64()}
		if slices.IndexFunc(x.slots, func(s []int) bool { return len(s) == size }) < 0 {
			n.several++
			offer := c.offer(x.slots)
			own, err := OwnLanes(t.Context(), offer)
			if err == nil {
				x.own = own
				byLanes, oneLID := x.plan(t, c)
				if byLanes <= OwnLimit(size-1) {
					n.isolated++
				}
				if oneLID > OwnLimit(size-1) {
					n.longer++
					if least := countedOneLID(offer.Tree); oneLID > least {
						t.Errorf("job of %d servers on lanes of its own: %d phases for one LID; %d are 5 %% above P−1, and counting the free lanes allows %d", size, oneLID, OwnLimit(size-1), least)
					}
					n.worst = max(n.worst, float64(oneLID)/float64(size-1))
					if offer.Tree.Up = offer.Alive; countedOneLID(offer.Tree) > OwnLimit(size-1) {
						n.damaged++
					}
				}
			} else if !errors.Is(err, ErrNoOwnLanes) {
				t.Fatal(err)
			}
		}
		c.begin(t, x)
	}
	return n
}

// countedOneLID is a number of phases that no plan for one LID a server is below: all that
// a leaf sends to a server takes one lane. So for each leaf and some others it counts, one
// way, the servers of these, and the other way, its own servers once for each of these,
// and shares them out to the lanes that lead there.
func countedOneLID(t *Tree) (phases int) {
	for A, slots := range t.Slots {
		var others []int
		for B := range t.Slots {
			if B != A && len(slots) > 0 && len(t.Slots[B]) > 0 {
				others = append(others, B)
			}
		}
		for some := 1; some < 1<<len(others); some++ {
			lanes, servers, leaves, fewest := make([]bool, t.Lanes), 0, 0, t.Servers()
			for i, B := range others {
				if some>>i&1 == 0 {
					continue
				}
				leaves++
				servers += len(t.Slots[B])
				fewest = min(fewest, len(t.Slots[B]))
				for k := range lanes {
					lanes[k] = lanes[k] || t.Up[A][k] && t.Up[B][k]
				}
			}
			up := commonLanes(lanes, lanes)
			phases = max(phases, len(slots)*ceilDiv(servers, up), fewest*ceilDiv(leaves*len(slots), up))
		}
	}
	return phases
}

// plan plans the job on its own lanes, and checks the plans.
func (x *tenant) plan(t *testing.T, c *cluster) (byLanes, oneLID int) {
	t.Helper()
	tree := &Tree{Lanes: c.Lanes, Slots: x.slots, Up: x.own}
	p, err := PlanExact(t.Context(), tree)
	if err == nil {
		err = checkPlan(tree, p)
	}
	q, err2 := PlanOneLID(t.Context(), tree, Wish{})
	if err2 == nil {
		err2 = checkGrouped(tree, q, 1)
	}
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	x.plans = []*Plan{p, q.Plan}
	return p.Phases, q.Phases
}

// together runs the exchanges of all jobs with lanes of their own for some time, each
// again and again from an offset of its own, half of them by lanes and half by base LIDs,
// and counts how often a link carries two transfers.
func (c *cluster) together(rng *rand.Rand) (crowded int) {
	for _, way := range []int{0, 1} {
		const time = 300
		links := make([][]bool, time)
		for i := range links {
			links[i] = make([]bool, 2*len(c.Slots)*c.Lanes)
		}
		for j, x := range c.running {
			if x.own == nil {
				continue
			}
			plan := x.plans[(j+way)%2]
			leafOf, offset := leavesOf(&Tree{Slots: x.slots}), rng.IntN(1<<20)
			for now := range time {
				to, lane := plan.Row(Phase((now + offset) % plan.Phases))
				for s, d := range to {
					if d == Idle || lane[s] == Local {
						continue
					}
					for _, at := range []int{leafOf[s]*c.Lanes + int(lane[s]), (len(c.Slots)+leafOf[d])*c.Lanes + int(lane[s])} {
						if links[now][at] {
							crowded++
						}
						links[now][at] = true
					}
				}
			}
		}
	}
	return crowded
}

// TestOwnLanes starts jobs on FT(2;20,18) at 90 % load, whole and with nine dead cables,
// places them as Slurm does, and gives those of several leaves lanes of their own.
func TestOwnLanes(t *testing.T) {
	for _, c := range []struct {
		dead  int
		share float64
	}{{0, 0.99}, {9, 0.95}} {
		for seed := range uint64(share(20, 3)) {
			cluster := newCluster(randomFailures(fullTree(20, 18), c.dead, seed))
			rng := rand.New(rand.NewPCG(seed, 128))
			n := cluster.starts(t, share(500, 100), 128, rng)
			isolated := float64(n.isolated) / float64(n.several)
			t.Logf("%d dead cables, seed %d: %d of %d jobs have lanes of their own (%.1f %%); for %d jobs counting does not allow one LID 1.05 (P−1) phases, for %d of them on no lanes that are up, at worst %.3f (P−1)", c.dead, seed, n.isolated, n.several, 100*isolated, n.longer, n.damaged, n.worst)
			if isolated < c.share {
				t.Errorf("%d dead cables, seed %d: %.1f %% of the jobs have lanes of their own, want %.0f %%", c.dead, seed, 100*isolated, 100*c.share)
			}
			if c.dead == 0 && n.longer > 0 {
				t.Errorf("seed %d: %d plans for one LID are longer than 1.05 (P−1) phases though nothing is damaged", seed, n.longer)
			}
			if n := cluster.together(rng); n > 0 {
				t.Errorf("%d dead cables, seed %d: %d times two transfers are on a link", c.dead, seed, n)
			}
		}
	}
}

// TestOwnLanesOdd checks that jobs with leaves of any sizes get lanes if lanes are free, and
// that a job whose leaves do not meet gets none.
func TestOwnLanesOdd(t *testing.T) {
	for _, slots := range [][]int{{10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {20, 1}, {19, 20, 1, 2}, {1, 1, 1}, {7}} {
		c := newCluster(fullTree(20, 18))
		x := &tenant{slots: make([][]int, 18)}
		for leaf, n := range slots {
			x.slots[leaf] = c.free[leaf][:n]
		}
		own, err := OwnLanes(t.Context(), c.offer(x.slots))
		if err != nil {
			t.Fatalf("%v: %v", slots, err)
		}
		x.own = own
		servers := (&Tree{Slots: x.slots}).Servers()
		if byLanes, oneLID := x.plan(t, c); byLanes > OwnLimit(servers-1) || oneLID > OwnLimit(servers-1)*5/4 {
			t.Errorf("%v: %d phases by lanes, %d for one LID", slots, byLanes, oneLID)
		}
	}
	c := newCluster(fullTree(20, 2))
	for k := range 20 {
		c.held[k%2][k] = true
	}
	job := [][]int{{0, 1}, {0, 1}}
	if own, err := OwnLanes(t.Context(), c.offer(job)); !errors.Is(err, ErrNoOwnLanes) {
		t.Errorf("two leaves that do not meet have lanes %v, %v", own, err)
	}
}

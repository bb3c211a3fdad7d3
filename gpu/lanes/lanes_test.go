package lanes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/asked"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// request asks for the lanes of a plan whose rank r has the host nics[r] of a tree.
func request(plan *gpu.Plan, tree *topology.FatTree, nics []int) *Request {
	q := &Request{BytesPerSecond: gpu.DefaultModel.B2, LatencySeconds: gpu.DefaultModel.Latency.Seconds()}
	for _, h := range nics {
		q.Hosts = append(q.Hosts, tree.Hosts[h].Name)
	}
	for i := range plan.Stages {
		var stage Stage
		for _, t := range plan.Stages[i].Transfers {
			stage = append(stage, Send{int32(t.From), int32(t.To), t.Offset, t.Bytes})
		}
		q.Stages = append(q.Stages, stage)
	}
	return q
}

// naive follows the transfers of every part by lft.Trace, and counts them on every cable.
func naive(x *Plan, host []int, f *topology.Fabric, tree *topology.FatTree, tables *lft.Tables) error {
	for i, part := range x.Parts {
		taken := map[string]bool{}
		for _, t := range part.Transfers {
			hops, err := tables.Trace(f, tree.Hosts[host[t.From]].PortRef, t.DLID)
			if err != nil {
				return err
			}
			for _, hop := range hops {
				key := fmt.Sprint(hop)
				if taken[key] {
					return fmt.Errorf("part %d: two transfers over %s", i, key)
				}
				taken[key] = true
			}
		}
	}
	return nil
}

// exchange draws a plan of servers whose NICs are hosts of a tree.
func exchange(t *rapid.T, tree *topology.FatTree) (*gpu.Plan, []int) {
	m := rapid.IntRange(1, 4).Draw(t, "GPUs")
	n := rapid.IntRange(1, max(1, min(6, len(tree.Servers)/m))).Draw(t, "servers")
	if n*m > len(tree.Servers) {
		m = 1
	}
	nics := rapid.Permutation(slices.Clone(tree.Servers)).Draw(t, "hosts")[:n*m]
	traffic, err := gpu.NewTraffic(gpu.Cluster{Servers: n, GPUs: m})
	if err != nil {
		t.Fatal(err)
	}
	limit := rapid.SampledFrom([]int64{1, 100, 1 << 24}).Draw(t, "limit")
	for at := range traffic.Bytes {
		traffic.Bytes[at] = rapid.Int64Range(0, limit).Draw(t, "bytes")
	}
	var p gpu.Planner
	plan, err := p.Plan(context.Background(), traffic, gpu.Options{Mode: rapid.SampledFrom([]gpu.Mode{gpu.Bytes, gpu.MinMove, gpu.Auto}).Draw(t, "mode")})
	if err != nil {
		t.Skip("it has too many stages") // of single packets of 2^24 bytes
	}
	return plan, nics
}

// On random fabrics with dead cables, random exchanges are pinned, pass two checks that share
// no code with the pinning, and are no longer than without the fabric if no lane is dead.
func TestPin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabgen.Spec{Spines: rapid.IntRange(1, 5).Draw(t, "spines"), Leaves: rapid.IntRange(2, 5).Draw(t, "leaves"), LMC: 3}
		var dead [][2]int
		for range rapid.IntRange(0, 3).Draw(t, "dead") {
			if c := [2]int{rapid.IntRange(0, spec.Leaves-1).Draw(t, "leaf"), rapid.IntRange(0, spec.Spines-1).Draw(t, "lane")}; !slices.Contains(dead, c) {
				dead = append(dead, c)
			}
		}
		tree := fabgen.Damaged(t, spec, dead...)
		plan, nics := exchange(t, tree)
		routed, err := planner.Route(t.Context(), tree, planner.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := Pin(t.Context(), request(plan, tree, nics), planner.Settings{}.Apart(tree))
		if err != nil {
			if len(dead) > 0 && strings.Contains(err.Error(), "no live lane") {
				return
			}
			t.Fatal(err)
		}
		if err := x.Verify(request(plan, tree, nics), tree, routed.Tables); err != nil {
			t.Fatal(err)
		}
		if err := naive(x, nics, tree.Fabric, tree, routed.Tables); err != nil {
			t.Fatal(err)
		}
		if x.Length < x.Bound || x.Bound < plan.Length || len(dead) == 0 && (x.Length != plan.Length || len(x.Parts) != len(plan.Stages)) {
			t.Fatalf("%d dead cables: %d bytes in %d parts, bound %d, and the plan %d in %d", len(dead), x.Length, len(x.Parts), x.Bound, plan.Length, len(plan.Stages))
		}
	})
}

// uniform is an exchange between servers on the leaves of a tree, whose NICs of a number are
// on a leaf.
func uniform(t *testing.T, tree *topology.FatTree, servers int, bytes int64) (*gpu.Plan, []int) {
	t.Helper()
	traffic, err := gpu.NewTraffic(gpu.Cluster{Servers: servers, GPUs: len(tree.Leaves)})
	if err != nil {
		t.Fatal(err)
	}
	for at := range traffic.Bytes {
		traffic.Bytes[at] = bytes
	}
	var p gpu.Planner
	plan, err := p.Plan(t.Context(), traffic, gpu.Options{Mode: gpu.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	nics := make([]int, traffic.Ranks())
	for r := range nics {
		nics[r] = r // NIC r mod m of server r div m, on leaf r div servers: its peers are on other leaves
	}
	return plan, nics
}

// A cable dies on a leaf all of whose hosts send to other leaves: 8 lanes become 7, and the
// stages of that leaf take at most 8/7 of the time.
func TestDeadCable(t *testing.T) {
	for _, dead := range [][][2]int{nil, {{0, 3}}, {{0, 3}, {2, 5}}} {
		tree := fabgen.Damaged(t, fabgen.Spec{Spines: 8, Leaves: 4, LMC: 3}, dead...)
		plan, nics := uniform(t, tree, 8, 70_000_000)
		x, err := Pin(t.Context(), request(plan, tree, nics), planner.Settings{}.Apart(tree))
		if err != nil {
			t.Fatal(err)
		}
		routed, err := planner.Route(t.Context(), tree, planner.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Verify(request(plan, tree, nics), tree, routed.Tables); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d dead: %d stages of %d bytes, %d parts of %d, bound %d", len(dead), len(plan.Stages), plan.Length, len(x.Parts), x.Length, x.Bound)
		if float64(x.Length) > (1+.03*float64(len(dead)))*float64(x.Bound) {
			t.Errorf("%v dead: %d bytes, and the bound is %d", dead, x.Length, x.Bound)
		}
	}
}

// If its context ends, Pin tries no alternatives for the remaining stages, and its result is
// valid. An exchange without bytes is also valid.
func TestPinEnds(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 8, Leaves: 4, LMC: 3}, [2]int{0, 3})
	routed, err := planner.Route(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	pin := func(ctx context.Context, bytes int64) *Plan {
		plan, nics := uniform(t, tree, 8, bytes)
		x, err := Pin(ctx, request(plan, tree, nics), tree)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Verify(request(plan, tree, nics), tree, routed.Tables); err != nil {
			t.Fatal(err)
		}
		return x
	}
	ctx := &asked.Context{Context: t.Context(), Most: 1 << 20}
	whole := pin(ctx, 70_000_000)
	last := whole.Seconds
	for _, most := range []int{ctx.Asked() / 2, 0} {
		x := pin(&asked.Context{Context: t.Context(), Most: most}, 70_000_000)
		if x.Seconds <= last {
			t.Errorf("ended after %d of %d: %v s, with more tried %v s", most, ctx.Asked(), x.Seconds, last)
		}
		last = x.Seconds
	}
	if x := pin(t.Context(), 0); x.Parts == nil {
		t.Error("the parts of an exchange of nothing are null in JSON, and no list")
	}
}

// Any change to a plan is detected.
func TestVerifyFinds(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}, [2]int{1, 2})
	plan, nics := uniform(t, tree, 4, 1000)
	routed, err := planner.Route(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for change := range 7 {
		for part := range 1000 {
			x, err := Pin(t.Context(), request(plan, tree, nics), planner.Settings{}.Apart(tree))
			if err != nil {
				t.Fatal(err)
			}
			if part >= len(x.Parts) {
				break
			}
			p := &x.Parts[part]
			first := slices.IndexFunc(p.Transfers, func(t Transfer) bool { return t.Lane >= 0 })
			if first < 0 || slices.IndexFunc(p.Transfers[first+1:], func(t Transfer) bool { return t.Lane >= 0 }) < 0 {
				continue
			}
			switch one := &p.Transfers[first]; change {
			case 0:
				one.Bytes--
			case 1:
				one.Offset++
			case 2:
				one.DLID = tree.Hosts[nics[one.From]].LID
			case 3:
				p.Transfers = slices.Delete(p.Transfers, first, first+1)
			case 4:
				p.Transfers = append(p.Transfers, *one)
			case 5:
				p.Stage++
			case 6: // the lane of another transfer of the same leaf
				other := slices.IndexFunc(p.Transfers, func(t Transfer) bool {
					return t.Lane >= 0 && t.From != one.From && tree.Hosts[nics[t.From]].Leaf == tree.Hosts[nics[one.From]].Leaf
				})
				if other < 0 {
					continue
				}
				one.DLID, _ = tree.DLID(&tree.Hosts[nics[one.To]], p.Transfers[other].Lane)
			}
			tried++
			if x.Verify(request(plan, tree, nics), tree, routed.Tables) == nil {
				t.Fatalf("change %d of part %d is not found", change, part)
			}
		}
	}
	if tried < 30 {
		t.Errorf("%d changes were tried", tried)
	}
}

// Exchanges that cannot be pinned are refused.
func TestPinRefuses(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 1})
	plan, nics := uniform(t, tree, 4, 1000)
	slices.Reverse(nics)
	for want, nics := range map[string][]int{"too few LIDs": nics, "want one for each": make([]int, 16), "want ranks of 0 to 7": nics[:8]} {
		if _, err := Pin(t.Context(), request(plan, tree, nics), tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for want, change := range map[string]func(q *Request){
		"is not a host of the fabric": func(q *Request) { q.Hosts[1] = "none" },
		"that have hosts":             func(q *Request) { q.Hosts[q.Stages[0][0].To] = "" },
		"has no transfer":             func(q *Request) { q.Stages[0] = nil },
		"to one other and to receive": func(q *Request) { q.Stages[0] = append(q.Stages[0], q.Stages[0][0]) },
		"want 1 to 2^61 bytes":        func(q *Request) { q.Stages[0][0].Bytes = 0 },
		"from 0 to 2^61":              func(q *Request) { q.Stages[0][0].Offset = -1 },
		"want bytes_per_second":       func(q *Request) { q.BytesPerSecond = 0 },
		"latency_seconds":             func(q *Request) { q.LatencySeconds = math.NaN() },
	} {
		q := request(plan, tree, nics)
		change(q)
		if _, err := Pin(t.Context(), q, tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	cut := fabgen.Damaged(t, fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [2]int{0, 0}, [2]int{1, 1})
	plan, nics = uniform(t, cut, 2, 1000)
	if _, err := Pin(t.Context(), request(plan, cut, nics), cut); err == nil || !strings.Contains(err.Error(), "no live lane") {
		t.Errorf("leaves without a common lane: %v", err)
	}
}

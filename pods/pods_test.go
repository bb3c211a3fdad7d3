package pods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// check walks a plan with nothing but the tree: every pair that has a way once, no server
// twice in a phase, no dead cable, no directed cable twice in a phase.
func check(t *Tree, p *Plan) error {
	n, lanes, planes := t.Servers(), t.Lanes(), t.Planes()
	home := make([]int, 0, n)
	for a := range t.Leaves {
		for range t.Leaves[a].Slots {
			home = append(home, a)
		}
	}
	planeOf := t.planeOf()
	seen := make([]bool, n*n)
	pairs := 0
	for _, u := range p.Unreachable {
		seen[int(u.Src)*n+int(u.Dst)] = true
		pairs++
	}
	to, way := make([]int32, n), make([]int16, n)
	used := map[[4]int]bool{}
	for ph := range p.Phases() {
		p.Row(ph, to, way)
		clear(used)
		take := func(kind, a, b, c int) error {
			k := [4]int{kind, a, b, c}
			if used[k] {
				return fmt.Errorf("phase %d: %v is used twice", ph, k)
			}
			used[k] = true
			return nil
		}
		for s, d := range to {
			if d == Idle {
				continue
			}
			if int(d) == s || seen[s*n+int(d)] {
				return fmt.Errorf("phase %d: pair %d %d again", ph, s, d)
			}
			seen[s*n+int(d)] = true
			pairs++
			if err := take(0, int(d), 0, 0); err != nil {
				return err
			}
			a, b := home[s], home[d]
			if a == b {
				if way[s] != -1 {
					return fmt.Errorf("phase %d: %d to %d within a leaf by %d", ph, s, d, way[s])
				}
				continue
			}
			w := int(way[s])
			pa, pb := t.Leaves[a].Pod, t.Leaves[b].Pod
			if p.Engine == Shift {
				α := t.Leaves[b].Slots[int(d)-int(p.Base[b])]
				if w = lanes + α; pa != pb {
					l := 0
					for x := range b {
						if t.Leaves[x].Pod == pb {
							l++
						}
					}
					w = t.First[α] + l
				}
			}
			var j int
			if pa == pb {
				if j = w - lanes; j < 0 || j >= planes {
					return fmt.Errorf("phase %d: %d to %d within a pod by %d", ph, s, d, w)
				}
			} else {
				if w < 0 || w >= lanes || !t.laneUp(pa, w) || !t.laneUp(pb, w) {
					return fmt.Errorf("phase %d: %d to %d by lane %d, which is dead", ph, s, d, w)
				}
				j = int(planeOf[w])
				if err := take(1, pa, w, 0); err != nil {
					return err
				}
				if err := take(2, pb, w, 0); err != nil {
					return err
				}
			}
			if !t.Leaves[a].Up[j] || !t.Leaves[b].Up[j] {
				return fmt.Errorf("phase %d: %d to %d on plane %d, which is dead", ph, s, d, j)
			}
			if err := take(3, a, j, 0); err != nil {
				return err
			}
			if err := take(4, b, j, 0); err != nil {
				return err
			}
		}
	}
	if pairs != n*(n-1) {
		return fmt.Errorf("%d pairs of %d", pairs, n*(n-1))
	}
	return nil
}

// regular is a tree with p pods of L leaves with n servers, M planes, U lanes a plane.
func regular(p, L, M, U, n int) *Tree {
	t := &Tree{Pods: p}
	for j := range M + 1 {
		t.First = append(t.First, j*U)
	}
	t.Up = make([]bool, p*M*U)
	for i := range t.Up {
		t.Up[i] = true
	}
	for l := range p * L {
		leaf := Leaf{Pod: l / L, Up: make([]bool, M)}
		for j := range leaf.Up {
			leaf.Up[j] = true
		}
		for a := range n {
			leaf.Slots = append(leaf.Slots, a)
		}
		t.Leaves = append(t.Leaves, leaf)
	}
	return t
}

func kAry(k int) *Tree { return regular(k, k/2, k/2, k/2, k/2) }

// hurt kills cables at random: of leaves, of mids, whole mids, whole tops.
func hurt(t *Tree, rng *rand.Rand, leaf, top, mids, tops int) {
	for range leaf {
		t.Leaves[rng.IntN(len(t.Leaves))].Up[rng.IntN(t.Planes())] = false
	}
	for range top {
		t.Up[rng.IntN(len(t.Up))] = false
	}
	for range mids {
		p, j := rng.IntN(t.Pods), rng.IntN(t.Planes())
		for a := range t.Leaves {
			if t.Leaves[a].Pod == p {
				t.Leaves[a].Up[j] = false
			}
		}
		for k := t.First[j]; k < t.First[j+1]; k++ {
			t.Up[p*t.Lanes()+k] = false
		}
	}
	for range tops {
		k := rng.IntN(t.Lanes())
		for p := range t.Pods {
			t.Up[p*t.Lanes()+k] = false
		}
	}
}

func TestTry(t *testing.T) {
	for _, k := range []int{4, 6, 8} {
		for _, g := range []int{1, 0} {
			for kind := range 6 {
				rng := rand.New(rand.NewPCG(uint64(k), uint64(kind)))
				gaps, worst, sum := 0, 0.0, 0.0
				const draws = 20
				for range draws {
					tree := kAry(k)
					d := 1 + rng.IntN(2*k)
					switch kind {
					case 0:
						hurt(tree, rng, d, 0, 0, 0)
					case 1:
						hurt(tree, rng, 0, d, 0, 0)
					case 2:
						hurt(tree, rng, 0, 0, 1+d%3, 0)
					case 3:
						hurt(tree, rng, 0, 0, 0, 1+d%3)
					case 4:
						hurt(tree, rng, d/2+1, d/2+1, 0, 0)
					}
					p, err := Make(context.Background(), tree, g)
					if err != nil {
						t.Fatal(k, g, kind, err)
					}
					if err := check(tree, p); err != nil {
						t.Fatal(k, g, kind, p.Engine, err)
					}
					least := p.LowerBound
					if g == 0 {
						least = ceilDiv(max(p.LowerBound, tree.Servers()), p.Group) * p.Group
					}
					if p.Phases() > least {
						gaps++
					}
					r := float64(p.Phases())/float64(least) - 1
					sum += r
					worst = max(worst, r)
				}
				t.Logf("k=%d group %d kind %d: %d of %d over, mean %.2f %%, worst %.2f %%", k, g, kind, gaps, draws, 100*sum/draws, 100*worst)
			}
		}
	}
}

package photonic

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// copied returns a copy of a plan, made through its file format.
func copied(t *testing.T, in *Instance, p *Plan) (*Instance, *Plan) {
	t.Helper()
	data, err := Encode(in, p)
	if err != nil {
		t.Fatal(err)
	}
	in, p, err = Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return in, p
}

// TestReplayRounds corrupts a plan of rounds in every possible way.
func TestReplayRounds(t *testing.T) {
	in := one(12, 2, 5)
	good := made(t, in, 2)
	if len(good.Rounds) != 2 || len(good.Topologies) != 2 {
		t.Fatalf("%d rounds on %d topologies, want 2 and 2", len(good.Rounds), len(good.Topologies))
	}
	moving := func(r *Round, t int) (moves []*int8) { // those of hop t
		for _, p := range r.Paths {
			if p.Switches[t] != Wait {
				moves = append(moves, &p.Switches[t])
			}
		}
		return moves
	}
	for _, c := range []struct {
		name  string
		spoil func(*Instance, *Plan)
		want  string
	}{
		{"link taken twice", func(_ *Instance, p *Plan) { m := moving(&p.Rounds[0], 0); *m[0] = *m[1] }, "at the same time"},
		{"hop left out", func(_ *Instance, p *Plan) { *moving(&p.Rounds[0], 0)[0] = Wait }, "ends at GPU"},
		{"other switch", func(_ *Instance, p *Plan) { m := moving(&p.Rounds[1], 0); *m[0], *m[1] = *m[1], *m[0] }, "ends at GPU"},
		{"no such switch", func(_ *Instance, p *Plan) { *moving(&p.Rounds[0], 0)[0] = 2 }, "over switch 2"},
		{"class left out", func(_ *Instance, p *Plan) { p.Rounds[1].Paths = p.Rounds[1].Paths[1:] }, "ends at GPU"},
		{"class twice", func(_ *Instance, p *Plan) { p.Rounds[0].Paths[1].Class = p.Rounds[0].Paths[0].Class }, "twice at a time"},
		{"no such class", func(_ *Instance, p *Plan) { p.Rounds[0].Paths[1].Class = 12 }, ": class 12"},
		{"round left out", func(_ *Instance, p *Plan) { p.Rounds = p.Rounds[:1] }, "ends at GPU"},
		{"round twice", func(_ *Instance, p *Plan) { p.Rounds = append(p.Rounds, p.Rounds[1]) }, "ends at GPU"},
		{"topologies out of order", func(_ *Instance, p *Plan) { slices.Reverse(p.Rounds) }, "topology"},
		{"hops cut off", func(_ *Instance, p *Plan) { p.Rounds[0].Hops-- }, "hops of"},
		{"hops too many", func(_ *Instance, p *Plan) { p.Rounds[0].Hops++ }, "states a cost"},
		{"hops without end", func(_ *Instance, p *Plan) { p.Rounds[0].Hops = 1 << 60 }, "want from 0 to"},
		{"cost", func(_ *Instance, p *Plan) { p.Cost-- }, "states a cost"},
		{"transfers", func(_ *Instance, p *Plan) { p.Sum-- }, "of transfers"},
		{"hop sum", func(_ *Instance, p *Plan) { p.HopSum /= 2 }, "a hop sum of"},
		{"bound", func(_ *Instance, p *Plan) { p.LowerBound = p.Cost + 1 }, "states a lower bound"},
		{"other offset", func(_ *Instance, p *Plan) { p.Topologies[0].Offsets[0]++ }, "ends at GPU"},
		{"no offset", func(_ *Instance, p *Plan) { p.Topologies[0].Offsets[0] = 0 }, "offset 0"},
		{"one offset", func(_ *Instance, p *Plan) { p.Topologies[0].Offsets = p.Topologies[0].Offsets[:1] }, "offsets"},
		{"one topology", func(_ *Instance, p *Plan) { p.Topologies = p.Topologies[:1] }, "topology"},
		{"many topologies", func(_ *Instance, p *Plan) {
			for range 12 {
				p.Topologies = append(p.Topologies, p.Topologies[0])
			}
		}, "at most 11"},
		{"label", func(_ *Instance, p *Plan) { p.Label = make([]int32, 12) }, "not a permutation"},
		{"slower links", func(in *Instance, _ *Plan) { in.Link.Alpha++ }, "states a cost"},
		{"other exchange", func(in *Instance, _ *Plan) { in.GPUs++ }, "the plan is for 12 GPUs"},
		{"rounds and hops", func(_ *Instance, p *Plan) { p.Hops = make([]Hop, 1) }, "want rounds or hops"},
	} {
		in, p := copied(t, in, good)
		if _, err := Replay(bg, in, p); err != nil {
			t.Fatalf("unspoiled: %v", err)
		}
		c.spoil(in, p)
		if _, err := Replay(bg, in, p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestReplayHops corrupts a plan of single chunks in every possible way.
func TestReplayHops(t *testing.T) {
	in := &Instance{GPUs: 8, Degree: 2, Reconfig: Micros(50), Link: DefaultLink, Message: 20_000_000}
	if err := in.Draw("zipf", ZipfFactor, 3); err != nil {
		t.Fatal(err)
	}
	good := made(t, in, 2)
	if len(good.Hops) == 0 {
		t.Fatal("no plan of single chunks")
	}
	last := slices.IndexFunc(good.Hops, func(h Hop) bool { return h.Topology == 1 })
	for _, c := range []struct {
		name  string
		spoil func(*Instance, *Plan)
		want  string
	}{
		{"link taken twice", func(_ *Instance, p *Plan) { p.Hops[last-1].Start = p.Hops[0].Start }, ""},
		{"too early", func(_ *Instance, p *Plan) { p.Hops[0].Start = -1 }, "before the topology is configured"},
		{"before it is there", func(_ *Instance, p *Plan) {
			seen := map[[2]int32]bool{}
			for i, h := range p.Hops {
				if key := [2]int32{h.Flow, h.Chunk}; seen[key] && h.Topology == 0 {
					p.Hops[i].Start--
					return
				} else {
					seen[key] = true
				}
			}
		}, ""},
		{"whole at different places", func(_ *Instance, p *Plan) {
			i := slices.IndexFunc(p.Hops, func(h Hop) bool { return h.Chunk == 1 })
			p.Hops[i].Chunk = Whole
		}, ""},
		{"too late", func(_ *Instance, p *Plan) { p.Hops[last-1].Start = p.Spans[0] }, "until"},
		{"after the end", func(_ *Instance, p *Plan) { p.Hops[last-1].Start = p.Spans[0] + 1 }, "has ended"},
		{"hop left out", func(_ *Instance, p *Plan) { p.Hops = p.Hops[1:] }, ""},
		{"last hop left out", func(_ *Instance, p *Plan) { p.Hops = p.Hops[:len(p.Hops)-1] }, "ends at GPU"},
		{"no such flow", func(_ *Instance, p *Plan) { p.Hops[0].Flow = 64 }, "unknown flow 64"},
		{"no such switch", func(_ *Instance, p *Plan) { p.Hops[0].Switch = -1 }, "or switch -1"},
		{"no such chunk", func(_ *Instance, p *Plan) { p.Hops[0].Chunk = 1 << 20 }, "has no chunk"},
		{"no such topology", func(_ *Instance, p *Plan) { p.Hops[len(p.Hops)-1].Topology = 2 }, "there are 2"},
		{"span cut", func(_ *Instance, p *Plan) { p.Spans[0]-- }, "until"},
		{"span longer", func(_ *Instance, p *Plan) { p.Spans[0]++ }, "states a cost"},
		{"span negative", func(_ *Instance, p *Plan) { p.Spans[0] = -1 }, "too long"},
		{"span missing", func(_ *Instance, p *Plan) { p.Spans = p.Spans[:1] }, "spans of 1"},
		{"larger message", func(in *Instance, _ *Plan) { in.Sizes[1] += DefaultLink.Chunk }, ""},
		{"no permutation", func(_ *Instance, p *Plan) {
			p.Topologies[0] = Topology{Next: [][]int32{{0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5, 6, 7}}}
		}, "not set to a permutation"},
		{"one switch", func(_ *Instance, p *Plan) { p.Topologies[0] = Topology{Next: [][]int32{{1, 2, 3, 4, 5, 6, 7, 0}}} }, "sets 1 switches"},
		{"no GPU", func(_ *Instance, p *Plan) {
			p.Topologies[0] = Topology{Next: [][]int32{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 0}}}
		}, "is 8, want from 0 to 7"},
	} {
		in, p := copied(t, in, good)
		if _, err := Replay(bg, in, p); err != nil {
			t.Fatalf("unspoiled: %v", err)
		}
		c.spoil(in, p)
		if _, err := Replay(bg, in, p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestReplayWhole replays a plan that sends whole messages, and corrupts it.
func TestReplayWhole(t *testing.T) {
	in := &Instance{GPUs: 6, Degree: 2, Reconfig: Micros(5), Link: Link{Alpha: 7, Gbps: 100, Chunk: 1000}, Message: 3500}
	c := newCayleys(in)
	if ok, err := c.next(bg); !ok || err != nil {
		t.Fatal(ok, err)
	}
	legs := c.legs(1)
	for i := range legs[0] {
		legs[0][i].to = Whole
	}
	p, err := in.layOut("cayley", c.best[0].group, c.best[0].sets, nil).pack(bg, in, legs, never)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Replay(bg, in, p)
	if err != nil || r.Messages != 30 || p.Sum != Time(c.sum())*in.T() {
		t.Fatalf("%+v, %v, want 30 messages in %v", r, err, Time(c.sum())*in.T())
	}
	p.Hops[len(p.Hops)-1].Start--
	if _, err := Replay(bg, in, p); err == nil {
		t.Error("a message that starts too early is let pass")
	}
	p.Hops[len(p.Hops)-1].Start++
	p.Hops[0].Chunk = 0
	if _, err := Replay(bg, in, p); err == nil {
		t.Error("a message without most of its chunks is let pass")
	}
}

// TestReplayOfOneSource replays valid and corrupt plans with every source and with one
// for all: both must return the same error and counts.
func TestReplayOfOneSource(t *testing.T) {
	for _, n := range []int{5, 12, 31} {
		for k := 1; k <= 2; k++ {
			in := one(n, k, 3)
			good, err := Make(bg, in, Options{Family: circulant(k), Reconfigurations: 2})
			if err != nil {
				t.Fatal(err)
			}
			for spoiled := range 3 {
				in, p := copied(t, in, good)
				switch spoiled {
				case 1:
					for i, s := range p.Rounds[0].Paths[0].Switches {
						if s != Wait {
							p.Rounds[0].Paths[0].Switches[i] = Wait
							break
						}
					}
				case 2:
					p.Topologies[1].Offsets[0] = p.Topologies[1].Offsets[0]%(n-1) + 1
				}
				var answers []string
				for _, literal := range []int64{0, literalMoves} {
					r, err := NewReplayer(in, p.Topologies, nil)
					if err != nil {
						t.Fatal(err)
					}
					r.literal = literal
					for i := range p.Rounds {
						if err := r.Round(bg, &p.Rounds[i]); err != nil {
							t.Fatal(err)
						}
					}
					out, err := r.Done()
					if err != nil {
						answers = append(answers, err.Error())
						continue
					}
					if out.Symmetric != (literal == 0) || out.Messages != n*(n-1) || out.Cost != good.Sum {
						t.Errorf("n = %d, k = %d: %+v", n, k, out)
					}
					answers = append(answers, "")
				}
				if answers[0] != answers[1] || (answers[0] == "") != (spoiled == 0) {
					t.Errorf("n = %d, k = %d, spoiled %d: one source says %q, all %q", n, k, spoiled, answers[0], answers[1])
				}
			}
		}
	}
}

// FuzzDecode decodes plans that may be corrupt: Replay does not crash on them, and gives
// the same verdict after encoding and decoding again.
func FuzzDecode(f *testing.F) {
	for _, in := range []*Instance{one(6, 1, 2), one(7, 2, 2), {GPUs: 5, Degree: 2, Reconfig: 1, Link: DefaultLink, Message: 1e7, Sizes: randomSizes(5, 1e7, 1)}} {
		p, err := Make(f.Context(), in, Options{Relabel: true})
		if err != nil {
			f.Fatal(err)
		}
		data, err := Encode(in, p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(bytes.ReplaceAll(data, []byte(`"topology":1`), []byte(`"topology":0`)))
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte(`{"version":1,"instance":{"gpus":2,"degree":1,"reconfig_us":1,"link":{"gbps":1,"chunk":1},"message":1},"plan":{"gpus":2,"degree":1,"topologies":[{"offsets":[1]}],"rounds":[{"hops":9000000000000000000}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, p, err := Decode(data)
		if err != nil || in.GPUs > 64 {
			return
		}
		_, err = Replay(bg, in, p)
		again, aerr := Encode(in, p)
		if aerr != nil {
			t.Fatal(aerr)
		}
		in, p, aerr = Decode(again)
		if aerr != nil {
			t.Fatalf("the encoded plan cannot be decoded: %v", aerr)
		}
		if _, other := Replay(bg, in, p); (other == nil) != (err == nil) {
			t.Errorf("replayed: %v; written and read again: %v", err, other)
		}
	})
}

package gpu

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// good returns a valid plan and its traffic.
func good(t *testing.T, mode Mode) (*Traffic, *Plan) {
	t.Helper()
	traffic := frame(Cluster{4, 3}, rand.New(rand.NewPCG(4, 3)))
	for l := range 12 {
		traffic.Bytes[l*12+(l+1)%3+l/3*3] += 5 // inside servers
		traffic.Bytes[l*13] = 2                // to itself
	}
	var p Planner
	plan, err := p.Plan(t.Context(), traffic, Options{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(t.Context(), traffic, plan); err != nil {
		t.Fatal(err)
	}
	return traffic, plan
}

func lengths(p *Plan) (list []int64) {
	for _, s := range p.Stages {
		list = append(list, s.Length)
	}
	return list
}

// Any single change to the programs makes the replay fail.
func TestReplayFindsChanges(t *testing.T) {
	traffic, plan := good(t, Paper)
	if plan.MovesBefore == 0 || plan.MovesAfter == 0 || len(plan.Local) == 0 {
		t.Fatalf("the plan lacks moves: %d before, %d after, %d local messages", plan.MovesBefore, plan.MovesAfter, len(plan.Local))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4000 {
		programs := must(plan.Programs(bg))
		p := &programs[rng.IntN(len(programs))]
		what := rng.IntN(13)
		lists := []*[]Move{&p.Before.Send, &p.Before.Receive, &p.After.Send, &p.After.Receive, &p.Local.Send, &p.Local.Receive}
		turns := []*[]Turn{&p.Send, &p.Receive}
		switch {
		case what < 6:
			list := lists[what]
			if len(*list) > 0 && rng.IntN(4) == 0 {
				(*list)[rng.IntN(len(*list))].Beside += 1 - 2*rng.IntN(2)
			} else if !spoil(rng, list, func(x *Move) *Piece { return &x.Piece }) {
				continue
			}
		case what < 8:
			list := turns[what-6]
			if len(*list) > 0 && rng.IntN(4) == 0 {
				(*list)[rng.IntN(len(*list))].Stage += 1 - 2*rng.IntN(2)
			} else if !spoil(rng, list, func(x *Turn) *Piece { return &x.Piece }) {
				continue
			}
		case what == 8:
			p.Input++
		case what == 9:
			p.Output--
		case what == 10:
			p.NICSend += 3
		case what == 11:
			p.NICRecv--
		default:
			p.Rank++
		}
		if Replay(t.Context(), traffic, lengths(plan), programs) == nil {
			t.Fatalf("change %d of rank %d is not found", what, p.Rank)
		}
	}
}

// spoil changes, duplicates or removes an element of a list, if any.
func spoil[T any](rng *rand.Rand, list *[]T, piece func(*T) *Piece) bool {
	if len(*list) == 0 {
		return false
	}
	*list = slices.Clone(*list)
	at := rng.IntN(len(*list))
	x := piece(&(*list)[at])
	change := 1 + rng.Int64N(3)
	if rng.IntN(2) == 0 {
		change = -change
	}
	switch rng.IntN(5) {
	case 0:
		x.Peer += Rank(change)
	case 1:
		x.Offset += change
	case 2:
		x.Bytes += change
	case 3:
		*list = append(*list, (*list)[at])
	default:
		*list = slices.Delete(*list, at, at+1)
	}
	return true
}

// Two swapped messages of equal size are detected by their contents, although the number of
// bytes that arrive is right.
func TestReplayKnowsMessages(t *testing.T) {
	traffic, err := NewTraffic(Cluster{2, 2})
	if err != nil {
		t.Fatal(err)
	}
	traffic.Bytes[2], traffic.Bytes[3] = 8, 8 // rank 0 to ranks 2 and 3
	var p Planner
	plan, err := p.Plan(t.Context(), traffic, Options{Mode: None})
	if err != nil {
		t.Fatal(err)
	}
	programs := must(plan.Programs(bg))
	if err := Replay(t.Context(), traffic, lengths(plan), programs); err != nil {
		t.Fatal(err)
	}
	x := programs[0].Before.Send
	x[0].Offset, x[1].Offset = x[1].Offset, x[0].Offset
	if Replay(t.Context(), traffic, lengths(plan), programs) == nil {
		t.Error("two messages that change places are not found")
	}
}

func TestReplayFindsLongTransfers(t *testing.T) {
	traffic, plan := good(t, Rails)
	short := lengths(plan)
	for stage := range short {
		short[stage]--
		if Replay(t.Context(), traffic, short, must(plan.Programs(bg))) == nil {
			t.Fatalf("a transfer longer than stage %d is not found", stage)
		}
		short[stage]++
	}
	if Replay(t.Context(), traffic, short[:len(short)-1], must(plan.Programs(bg))) == nil || Replay(t.Context(), traffic, short, must(plan.Programs(bg))[1:]) == nil {
		t.Error("a missing stage or program is not found")
	}
}

func TestVerifyFindsWrongSummaries(t *testing.T) {
	traffic, plan := good(t, MinMove)
	if v, err := Decode(must(plan.Encode(bg))); err != nil || v.Verify(t.Context(), traffic) != nil {
		t.Fatalf("the plan itself, in binary form: %v, %v", err, v.Verify(t.Context(), traffic))
	}
	for what, change := range map[string]func(p *Plan){
		"length":       func(p *Plan) { p.Length++ },
		"bound":        func(p *Plan) { p.Bound-- },
		"moves before": func(p *Plan) { p.MovesBefore++ },
		"moves after":  func(p *Plan) { p.MovesAfter-- },
	} {
		spoilt := *plan
		change(&spoilt)
		if Verify(t.Context(), traffic, &spoilt) == nil {
			t.Errorf("a wrong %s is not found", what)
		}
		if v, err := Decode(must(spoilt.Encode(bg))); err == nil && v.Verify(t.Context(), traffic) == nil {
			t.Errorf("a wrong %s of an exchange in binary form is not found", what)
		}
	}
}

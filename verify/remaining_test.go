package verify

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// midway splits a plan of the tree after some phases.
func midway(ft *topology.FatTree, all Rows, done int) (Past, Rows) {
	past := Past{Rows: all, Done: done}
	for _, h := range ft.Servers {
		past.Servers = append(past.Servers, ft.Hosts[h].GUID)
	}
	at := done * len(ft.Servers)
	return past, Rows{Phases: all.Phases - done, To: slices.Clone(all.To[at:]), Lane: slices.Clone(all.Lane[at:]), DLID: slices.Clone(all.DLID[at:])}
}

func TestRemainingAccepts(t *testing.T) {
	for name, spec := range map[string]fabgen.Spec{"FT(2;4,3)": {Spines: 4, Leaves: 3, LMC: 2}, "parallel cables": small, "one leaf": {Spines: 4, Leaves: 1, LMC: 2}} {
		ft := tree(t, spec)
		tables, all := naiveTables(ft), linearShift(ft)
		for done := range all.Phases + 1 {
			past, rest := midway(ft, all, done)
			if err := Remaining(ft, tables, past, rest, nil); err != nil {
				t.Errorf("%s, %d phases done: %v", name, done, err)
			}
		}
	}
}

// TestRemainingMaps checks that the past is read by port GUID: in another order, without a server
// that has gone, and with a new one.
func TestRemainingMaps(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	tables, all := naiveTables(ft), linearShift(ft)
	past, rest := midway(ft, all, 5)
	n := len(ft.Servers)
	turned := Past{Rows: NewRows(n, all.Phases), Done: 5}
	for i := range n {
		turned.Servers = append(turned.Servers, past.Servers[n-1-i])
	}
	for i, d := range all.To {
		turned.Rows.To[i/n*n+n-1-i%n] = int32(n-1) - d
	}
	if err := Remaining(ft, tables, turned, rest, nil); err != nil {
		t.Error("another order:", err)
	}
	turned.Servers[3] = 0xdead
	refused(t, Remaining(ft, tables, turned, rest, nil), PairMissing, NoPhase)
	some, rest := midway(ft, all, 5)
	some.Rows.To = slices.Clone(some.Rows.To)
	some.Rows.To[2*n+7], rest.To[0], rest.Lane[0], rest.DLID[0] = Idle, Idle, Local, 0
	refused(t, Remaining(ft, tables, some, rest, nil), PairMissing, NoPhase, "Hca0000 port 1 → Hca0006 port 1 is in no phase")
	everything, _ := midway(ft, all, 0)
	everything.Servers = nil
	everything.Rows = Rows{}
	if err := Remaining(ft, tables, everything, all, nil); err != nil {
		t.Error("newcomers alone:", err)
	}
}

// TestRemainingRefuses spoils a plan of the remaining pairs one way at a time.
func TestRemainingRefuses(t *testing.T) {
	const done = 5
	for name, c := range map[string]struct {
		spoil func(past *Past, rest *Rows, unreachable *[][2]int32)
		code  string
		phase int
		words string
	}{
		"a pair that is done":             {func(_ *Past, r *Rows, _ *[][2]int32) { r.To[0] = 1 }, PairTwice, 0, "has had its transfer in phase 0 of what is done"},
		"a pair left out":                 {func(_ *Past, r *Rows, _ *[][2]int32) { r.To[0], r.Lane[0], r.DLID[0] = Idle, Local, 0 }, PairMissing, NoPhase, "is in no phase"},
		"fewer phases done":               {func(p *Past, _ *Rows, _ *[][2]int32) { p.Done-- }, PairMissing, NoPhase, "is in no phase"},
		"more phases done":                {func(p *Past, _ *Rows, _ *[][2]int32) { p.Done++ }, PairTwice, 0, "of what is done"},
		"two transfers on a link":         {func(_ *Past, r *Rows, _ *[][2]int32) { r.Lane[0], r.DLID[0] = r.Lane[1], r.DLID[0]^1 }, LinkTwice, 0, ""},
		"a lane that is not its own":      {func(_ *Past, r *Rows, _ *[][2]int32) { r.Lane[0] ^= 1 }, WrongLane, 0, ""},
		"a done pair unreachable":         {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{0, 1}) }, PairTwice, NoPhase, "is called unreachable and has had its transfer"},
		"a joined pair unreachable":       {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{0, 11}) }, NotUnreachable, NoPhase, ""},
		"more done than there are":        {func(p *Past, _ *Rows, _ *[][2]int32) { p.Done = p.Rows.Phases + 1 }, BadRows, NoPhase, "12 phases are done of 11"},
		"a done pair in a later phase":    {func(_ *Past, r *Rows, _ *[][2]int32) { r.To[2*12+10] = 0 }, PairTwice, 2, "Hca0010 port 1 → Hca0000 port 1 has had its transfer in phase 1 of what is done"},
		"a done pair is unreachable, too": {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{10, 0}) }, PairTwice, NoPhase, "Hca0010 port 1 → Hca0000 port 1 is called unreachable and has had its transfer in phase 1 of"},
		"unreachable from beyond":         {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{12, 0}) }, BadRows, NoPhase, ""},
		"unreachable beyond":              {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{11, 12}) }, BadRows, NoPhase, ""},
		"unreachable from before":         {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{-1, 0}) }, BadRows, NoPhase, ""},
		"unreachable before":              {func(_ *Past, _ *Rows, u *[][2]int32) { *u = append(*u, [2]int32{0, -1}) }, BadRows, NoPhase, ""},
		"a server beyond":                 {func(_ *Past, r *Rows, _ *[][2]int32) { r.To[11] = 12 }, BadRows, 0, ""},
		"rows that lack destinations":     {func(_ *Past, r *Rows, _ *[][2]int32) { r.To = slices.Clip(r.To[:len(r.To)-12]) }, BadRows, NoPhase, "there are 60 destinations"},
		"a past to one before all":        {func(p *Past, _ *Rows, _ *[][2]int32) { p.Rows.To[0] = -2 }, BadRows, 0, "has sent to server -2"},
		"a past to itself":                {func(p *Past, _ *Rows, _ *[][2]int32) { p.Rows.To[3] = 3 }, BadRows, 0, "has sent to server 3"},
		"fewer done than none":            {func(p *Past, _ *Rows, _ *[][2]int32) { p.Done = -1 }, BadRows, NoPhase, "-1 phases are done"},
		"a past too short":                {func(p *Past, _ *Rows, _ *[][2]int32) { p.Rows.To = p.Rows.To[1:] }, BadRows, NoPhase, "need 132 elements"},
		"a past to nobody":                {func(p *Past, _ *Rows, _ *[][2]int32) { p.Rows.To[0] = 12 }, BadRows, 0, "has sent to server 12"},
		"a past that repeats":             {func(p *Past, _ *Rows, _ *[][2]int32) { p.Rows.To[12] = p.Rows.To[0] }, PairTwice, 1, "twice in what is done"},
		"rows too short":                  {func(_ *Past, r *Rows, _ *[][2]int32) { r.Lane = r.Lane[1:] }, BadRows, NoPhase, "there are 72 destinations, 71 lanes"},
	} {
		t.Run(name, func(t *testing.T) {
			ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
			past, rest := midway(ft, linearShift(ft), done)
			past.Rows.To = slices.Clone(past.Rows.To)
			var unreachable [][2]int32
			c.spoil(&past, &rest, &unreachable)
			refused(t, Remaining(ft, naiveTables(ft), past, rest, unreachable), c.code, c.phase, c.words)
		})
	}
}

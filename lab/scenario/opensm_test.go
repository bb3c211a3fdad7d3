package scenario

import (
	"testing"
)

// TestOpenSM measures one dead cable of FT(2;20,18) on a real OpenSM: min-hop
// nearly doubles the time of the exchange, OpenSM falls back from ftree to min-hop,
// and forsd's plan, on tables read back from the switches, takes the planned time.
func TestOpenSM(t *testing.T) {
	var steps int
	o := Options{Tree: LHCb, Scenarios: Paper(LHCb)[1:2], Engines: []string{"minhop", "ftree"}, Step: func(string, string) { steps++ }}
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if steps != o.Steps() {
		t.Errorf("%d steps, announced %d", steps, o.Steps())
	}
	r := &results[0]
	minhop, ftree, plan := &r.Exchanges[0], &r.Exchanges[1], &r.Exchanges[2]
	if minhop.Refused() || minhop.Mean < 1.8 || minhop.Mean > 2.1 || minhop.Phases != 359 || minhop.Lost != 0 {
		t.Errorf("min-hop: %+v", minhop)
	}
	if !ftree.Refused() || ftree.Used != "minhop" || ftree.Duration != minhop.Duration {
		t.Errorf("ftree: %+v, min-hop: %+v", ftree, minhop)
	}
	if plan.Engine != Forsd || plan.Refused() || plan.Max != 1 || plan.Phases != r.Phases || plan.Duration != r.Phases || plan.Lost != 0 || plan.Gbps != r.Gbps {
		t.Errorf("forsd: %+v, planned: %+v", plan, r)
	}
}

// TestOpenSMWhole measures a small tree without failures: no engine of OpenSM
// refuses it, and the linear shift is free of conflicts on ftree's tables.
func TestOpenSMWhole(t *testing.T) {
	tree := Tree{4, 4}
	results, err := Run(t.Context(), Options{Tree: tree, Scenarios: Paper(tree)[:1], Engines: Engines})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range results[0].Exchanges {
		if x.Refused() || x.Lost != 0 || x.Phases != tree.Servers()-1 {
			t.Errorf("%+v", x)
		}
		if (x.Engine == "ftree" || x.Engine == Forsd) && x.Max != 1 {
			t.Errorf("%s has conflicts without a failure: %+v", x.Engine, x)
		}
	}
}

package phasetable

// A plan in figures, as plan.json, the API and the epochs on disk have it.

// Length is how many phases a plan has, and how many any plan has at least.
type Length struct {
	Engine     string `json:"engine"` // what made it
	Phases     int    `json:"phases"`
	LowerBound int    `json:"lower_bound"`
}

// Summary is the length of a plan, and how far it is from the bound.
type Summary struct {
	Length
	Gap int `json:"gap"`
}

// Summarize sums a plan up.
func Summarize(engine string, phases, bound int) Summary {
	return Summary{Length{engine, phases, bound}, phases - bound}
}

// Proof is what proves the bound, and the ordered pairs of servers that the plan
// leaves out because they share no lane.
type Proof struct {
	UnreachablePairs int    `json:"unreachable_pairs"`
	Certificate      string `json:"certificate"`
}

// Size is the fabric that a plan is for.
type Size struct {
	Servers int `json:"servers"`
	Leaves  int `json:"leaves"`
	Spines  int `json:"spines"`
	Lanes   int `json:"lanes"`
	LMC     int `json:"lmc"`
}

// Load is what an exchange by base LIDs meets whose programs post all of it at once; 0 where
// it is not known.
type Load struct {
	BusiestCable int `json:"busiest_cable,omitempty"` // transfers over the directed cable that has most of them
	FairShare    int `json:"fair_share,omitempty"`    // as many some cable has with any tables
}

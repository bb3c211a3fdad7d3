package phasetable

// A plan in figures, as in plan.json, the API and the epochs on disk.

// Length is the number of phases of a plan, and the least number of any plan.
type Length struct {
	Engine     string `json:"engine"` // engine that made it
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

// Proof is the certificate of the bound, and the ordered pairs of servers that the plan
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

// Load is the load of an exchange by base LIDs that is posted all at once; 0 if unknown.
type Load struct {
	BusiestCable int `json:"busiest_cable,omitempty"` // transfers over the directed cable that has most of them
	FairShare    int `json:"fair_share,omitempty"`    // the same in a balanced exchange, whatever the tables
}

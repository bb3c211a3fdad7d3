package phasetable

import (
	"github.com/forsd/forsd/ib"
)

// PairChange is an ordered pair of servers whose destination LID differs from the previous
// plan. A connection made for the old LID must be made again.
type PairChange struct {
	Src  ib.GUID `json:"src"`
	Dst  ib.GUID `json:"dst"`
	Was  ib.LID  `json:"was"`  // the destination LID of the plan before
	DLID ib.LID  `json:"dlid"` // that of this plan
}

// Changes lists the pairs of both tables, by port GUID, whose destination LID differs, in
// the order of the new table: by source, then phase. Pairs within a leaf are included only
// if a base LID differs.
func Changes(old, now *View) []PairChange {
	var out []PairChange
	before := make([]int, now.servers) // number in the old table, Idle if none
	for s := range before {
		n, known := old.FindGUID(now.guid(s))
		if before[s] = n; !known {
			before[s] = Idle
		}
	}
	was := make([]ib.LID, old.servers) // [old number] the LID the source sends to
	for s, o := range before {
		if o == Idle {
			continue
		}
		clear(was)
		for p, row := 0, old.Row(o); p < row.Len(); p++ {
			if x := row.At(p); x.SendTo != Idle {
				was[x.SendTo] = x.DLID
			}
		}
		for p, row := 0, now.Row(s); p < row.Len(); p++ {
			x := row.At(p)
			if x.SendTo == Idle || before[x.SendTo] == Idle {
				continue
			}
			if lid := was[before[x.SendTo]]; lid != 0 && lid != x.DLID {
				out = append(out, PairChange{now.guid(s), now.guid(x.SendTo), lid, x.DLID})
			}
		}
	}
	return out
}

package api

import (
	"strconv"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
)

// ServerPlan is the answer of /v1/plan/servers: what one server does.
type ServerPlan struct {
	Epoch  uint64        `json:"epoch"`
	Server ServerRef     `json:"server"`
	Rows   []ServerPhase `json:"rows"`
}

// ServerRef names a server in every way there is.
type ServerRef struct {
	GUID   ib.GUID `json:"guid"`
	LID    ib.LID  `json:"lid"`
	LMC    uint8   `json:"lmc"`
	Leaf   int     `json:"leaf"`
	Name   string  `json:"name"`
	Number int     `json:"number"` // in the binary table of this epoch
}

// ServerPhase is what a server does in one phase. A GUID is absent where it
// does not send or not receive.
type ServerPhase struct {
	Phase    int     `json:"phase"`
	SendTo   ib.GUID `json:"send_to,omitzero"`
	RecvFrom ib.GUID `json:"recv_from,omitzero"`
	Lane     int     `json:"lane"` // −1 on its leaf, and where it does not send
	DLID     ib.LID  `json:"dlid,omitzero"`
}

// PlanPhase is the answer of /v1/plan/phase: the transfers of one phase.
type PlanPhase struct {
	Epoch     uint64     `json:"epoch"`
	Phases    int        `json:"phases"`
	Phase     int        `json:"phase"`
	Transfers []Transfer `json:"transfers"`
}

// Transfer is what one server sends to another.
type Transfer struct {
	Src  ib.GUID `json:"src"`
	Dst  ib.GUID `json:"dst"`
	Lane int     `json:"lane"` // −1 on one leaf
	DLID ib.LID  `json:"dlid"`
}

// PlanChanges is the answer of /v1/plan/changes: the ordered pairs of servers that both
// plans have, and that the later one gives another destination LID.
type PlanChanges struct {
	Since uint64                  `json:"since_epoch"` // the epoch that is compared with
	Epoch uint64                  `json:"epoch"`
	Pairs []phasetable.PairChange `json:"pairs"`
}

// RollbackRequest is the body of POST /v1/rollback.
type RollbackRequest struct {
	Epoch uint64 `json:"epoch"`
}

// ETag returns the entity tag of an epoch.
func ETag(epoch uint64) string { return `"` + strconv.FormatUint(epoch, 10) + `"` }

package sim

import "github.com/forsd/forsd/phasetable"

// RowsOf are the transfers of a plan.
func RowsOf(plan *phasetable.View) (rows []Row) {
	for s := range plan.Servers() {
		row := plan.Row(s)
		for p := range row.Len() {
			if x := row.At(p); x.SendTo != phasetable.Idle {
				rows = append(rows, Row{Phase: int32(p), DLID: x.DLID, Src: plan.Server(s).GUID, Dst: plan.Server(x.SendTo).GUID})
			}
		}
	}
	return rows
}

// RowsOfTable are the transfers of a table.
func RowsOfTable(t *phasetable.Table) ([]Row, error) {
	plan, err := phasetable.New(t)
	if err != nil {
		return nil, err
	}
	return RowsOf(plan), nil
}

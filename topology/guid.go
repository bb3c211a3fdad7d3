package topology

import "github.com/forsd/forsd/ib"

// permissiveLID is the LID of a port without an LID; some tools print it.
const permissiveLID ib.LID = 0xFFFF

// assigned returns a LID given in a file, 0 if none is assigned.
func assigned(lid ib.LID) ib.LID {
	if lid == permissiveLID {
		return 0
	}
	return lid
}

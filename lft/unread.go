package lft

import (
	"bytes"

	"github.com/forsd/forsd/ib"
)

// FillUnread adds the entries that dump_fts cannot read: if the largest LID begins a block
// of its own, dump_fts does not read that block. The entries of that LID are copied from
// want, the tables planned, and the LID is returned; it is 0 if nothing was added, because
// the LID does not begin a block or a table reaches it. Switches that want lacks get no
// entry.
func FillUnread(got, want *Tables) ib.LID {
	last := 0
	if len(want.Switches) > 0 {
		last = len(want.Switches[0].Out) - 1
	}
	if last <= 0 || last%Block != 0 {
		return 0
	}
	for i := range got.Switches {
		if out := got.Switches[i].Out; len(out) > last && out[last] != NoPath {
			return 0
		}
	}
	for i := range got.Switches {
		s := &got.Switches[i]
		out := bytes.Repeat([]byte{NoPath}, max(last+1, len(s.Out)))
		copy(out, s.Out)
		if j := want.Find(s.GUID); j >= 0 {
			out[last] = want.Switches[j].Out[last]
		}
		s.Out = out
	}
	return ib.LID(last)
}

package libfors

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/phasetable"
)

// TestChanged compares the peers to which each server must reconnect with Go's view of both
// tables: after failures and back, with other servers, and without servers.
func TestChanged(t *testing.T) {
	few := plan(t, 4, 3, 0, 2)
	few.Servers[2].GUID, few.Servers[5].GUID = 0xdead0001, 0xdead0002 // others in their place
	moved := plan(t, 6, 6, 0, 3)
	for i := range moved.Servers { // all LIDs are others
		moved.Servers[i].LID += 512
	}
	for i, d := range moved.To {
		if d != phasetable.Idle {
			moved.DLID[i] += 512
		}
	}
	for name, c := range map[string]struct{ old, now *phasetable.Table }{
		"the same":     {plan(t, 6, 6, 0, 3), plan(t, 6, 6, 0, 3)},
		"two cables":   {plan(t, 6, 6, 0, 3), plan(t, 6, 6, 2, 3)},
		"back":         {plan(t, 6, 6, 2, 3), plan(t, 6, 6, 0, 3)},
		"other ports":  {plan(t, 4, 3, 0, 2), few},
		"other LIDs":   {plan(t, 6, 6, 0, 3), moved},
		"other fabric": {plan(t, 6, 6, 0, 3), plan(t, 4, 3, 1, 2)},
		"nobody":       {&phasetable.Table{Epoch: 7}, plan(t, 4, 3, 0, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			before, old := encode(t, c.old)
			data, now := encode(t, c.now)
			p := start(t)
			p.do("memory %s", write(t, data))
			if d := cmp.Diff(wantChanged(old, now), p.do("changed %s", write(t, before))); d != "" {
				t.Errorf("changed (-Go +C):\n%s", d)
			}
		})
	}
}

// wantChanged is the expected output of the probe.
func wantChanged(old, now *phasetable.View) []string {
	var lines []string
	for s := range now.Servers() {
		line := fmt.Sprintf("%d:", s)
		before, known := old.FindGUID(now.Server(s).GUID)
		for p := 0; known && p < now.Phases(); p++ {
			x := now.Row(s).At(p)
			if x.SendTo == phasetable.Idle {
				continue
			}
			peer, ok := old.FindGUID(now.Server(x.SendTo).GUID)
			if !ok {
				continue
			}
			was, ok := old.FindPair(before, peer)
			is, _ := now.FindPair(s, x.SendTo)
			if ok && (was.DLID != is.DLID || int(old.Server(before).LID)+was.SrcPathBits != int(now.Server(s).LID)+is.SrcPathBits) {
				line += fmt.Sprintf(" %d", x.SendTo)
			}
		}
		lines = append(lines, line)
	}
	return append(lines, "beyond -1 -1")
}

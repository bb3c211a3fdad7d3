package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// TestBaseline makes things disappear, return, arrive and move, one after the other. No other
// entries may change, and the status reports the change.
func TestBaseline(t *testing.T) {
	t.Parallel()
	x := newSite(t, 8*time.Minute, small())
	x.ok(x.Sim.Unlink(x.ctx, "Leaf001", 4), // a free port
		x.Sim.Unlink(x.ctx, "Leaf003", 2)) // the newcomer's, until it arrives
	x.ok(x.Start(x.ctx))
	x.settled(Hosts(14))
	whole := x.check()
	quiet := func(st *api.Status) {
		t.Helper()
		if len(st.Baseline) != 0 {
			t.Errorf("the fabric is as it should be, and the status says %q", st.Baseline)
		}
	}

	// A host reboots.
	x.ok(x.Sim.Unlink(x.ctx, "Leaf001", 2))
	st := x.settled(Hosts(13))
	x.unmoved(whole, x.check())
	x.said(st.LastEvent.What, "Hca0005")
	x.said(st.Baseline, "Hca0005", "Leaf001 port 2", "absent")
	if !HasWarning(st, topology.HostAbsent) || st.Servers != 13 {
		t.Errorf("%d servers, warnings %v", st.Servers, st.Warnings)
	}
	x.ok(x.Sim.Relink(x.ctx, "Leaf001", 2))
	st = x.settled(Hosts(14))
	x.unmoved(whole, x.check())
	x.said(st.LastEvent.What, "Hca0005")
	quiet(st)

	// A spine goes and comes back.
	x.ok(x.Sim.UnlinkNode(x.ctx, "Spine002"))
	st = x.settled(SpinePresent(2, false))
	x.unmoved(whole, x.check(), 2)
	x.said(st.LastEvent.What, "Spine002")
	x.said(st.Baseline, "spine Spine002", "absent")
	if !HasWarning(st, topology.SpineDown) {
		t.Errorf("warnings %v", st.Warnings)
	}
	x.ok(x.Sim.RelinkNode(x.ctx, "Spine002"))
	st = x.settled(SpinePresent(2, true))
	x.unmoved(whole, x.check())
	quiet(st)

	// A newcomer arrives.
	x.ok(x.Sim.Relink(x.ctx, "Leaf003", 2))
	st = x.settled(Hosts(15))
	x.unmoved(whole, x.check())
	x.said(st.LastEvent.What, "Hca0013")
	if st.Servers != 15 {
		t.Errorf("%d servers after the newcomer", st.Servers)
	}

	// A cable is moved to the free port of its leaf.
	lane := 3
	cable := whole.Tree.Leaves[1].Cables[lane]
	x.ok(x.Sim.Unlink(x.ctx, "Leaf001", int(cable.LeafPort)))
	x.settled(Cable(1, lane, "missing"))
	x.ok(x.Sim.Link(x.ctx, "Leaf001", 4, "Spine003", int(cable.SpinePort)))
	st = x.settled(Cable(1, lane, "full"))
	x.unmoved(whole, x.check(), lane)
	x.said(st.Baseline, "Leaf001 – Spine003", "in ports 4 and", "baseline has it in")
	if !HasWarning(st, topology.CableMoved) {
		t.Errorf("warnings %v", st.Warnings)
	}
	x.noRoutingErrors()
}

// TestAdapterSwapped replaces a host's adapter. The host keeps its index and gets new LIDs, and
// no other entries change.
func TestAdapterSwapped(t *testing.T) {
	t.Parallel()
	x, before := up(t, 5*time.Minute, small())
	const guid ib.GUID = 0x500000
	x.ok(x.Sim.ReplaceAdapter(x.ctx, "Hca0006", guid))
	st := x.settled(func(top *api.Topology) error {
		for _, h := range top.Hosts {
			if h.GUID == guid+1 {
				return nil
			}
		}
		return fmt.Errorf("the new adapter is not there")
	})
	after := x.check()
	x.unmoved(before, after)
	x.said(st.LastEvent.What, "Hca0006")
	if st.Servers != 16 || st.Phases != 15 {
		t.Errorf("%d servers, %d phases", st.Servers, st.Phases)
	}
	alpha := map[ib.GUID]int{}
	for _, h := range append(before.Tree.Hosts, after.Tree.Hosts...) {
		alpha[h.GUID] = h.Alpha
	}
	old := before.Tree.Hosts[6].GUID
	if alpha[guid+1] != alpha[old] {
		t.Errorf("the new adapter has index %d, the old one had %d", alpha[guid+1], alpha[old])
	}
}

// TestLIDsReassigned has OpenSM swap the LIDs of two hosts at a restart.
func TestLIDsReassigned(t *testing.T) {
	t.Parallel()
	x, before := up(t, 5*time.Minute, small())
	a, b := before.Tree.Hosts[5], before.Tree.Hosts[9]
	x.SM.Stop(x.ctx)
	path := filepath.Join(x.ManagerDir(), "guid2lid")
	text, err := os.ReadFile(path)
	x.ok(err)
	swap := []byte("0x5")
	text = bytes.ReplaceAll(text, []byte(a.GUID.String()), swap)
	text = bytes.ReplaceAll(text, []byte(b.GUID.String()), []byte(a.GUID.String()))
	text = bytes.ReplaceAll(text, swap, []byte(b.GUID.String()))
	conf, err := os.ReadFile(x.SM.ConfFile())
	x.ok(err, os.WriteFile(path, text, 0o644), os.WriteFile(x.SM.ConfFile(), append(conf, "honor_guid2lid_file TRUE\n"...), 0o644))
	x.ok(x.SM.Restart(x.ctx))
	st := x.settled(func(top *api.Topology) error {
		for _, h := range top.Hosts {
			if h.GUID == a.GUID && h.LID != b.LID {
				return fmt.Errorf("%s has LID %d, not %d", h.Name, h.LID, b.LID)
			}
		}
		return nil
	})
	after := x.check()
	if got := [2]ib.LID{after.Tree.Hosts[5].LID, after.Tree.Hosts[9].LID}; got != [2]ib.LID{b.LID, a.LID} {
		t.Errorf("the LIDs are %v", got)
	}
	x.said(st.LastEvent.What, a.Name, "LID")
}

// TestLeafCutOff pulls all cables of a leaf: the others go on without it.
func TestLeafCutOff(t *testing.T) {
	t.Parallel()
	x, whole := up(t, 5*time.Minute, small())
	leaf := whole.Tree.Leaves[2]
	for _, c := range leaf.Cables {
		x.ok(x.Sim.Unlink(x.ctx, leaf.Name, int(c.LeafPort)))
	}
	st := x.settled(Hosts(12))
	x.unmoved(whole, x.check())
	x.said(st.Baseline, "leaf Leaf002", "absent")
	if !HasWarning(st, topology.LeafDown) || st.Servers != 12 {
		t.Errorf("%d servers, warnings %v", st.Servers, st.Warnings)
	}
	for _, c := range leaf.Cables {
		x.ok(x.Sim.Relink(x.ctx, leaf.Name, int(c.LeafPort)))
	}
	st = x.settled(func(top *api.Topology) error {
		for k := range leaf.Cables {
			if err := Cable(2, k, "full")(top); err != nil {
				return err
			}
		}
		return Hosts(16)(top)
	})
	x.unmoved(whole, x.check())
	if len(st.Baseline) != 0 || st.Servers != 16 {
		t.Errorf("%d servers, baseline %q", st.Servers, st.Baseline)
	}
}

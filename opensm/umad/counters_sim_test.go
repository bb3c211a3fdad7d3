//go:build umad && cgo

package umad_test

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestCounters reads counters set in the switches, at two ports of one switch and one of
// another, and reads them again after a reset by another program. A node that does not
// answer is named, and the others are read.
func TestCounters(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3}), 2)
	c := attach(t, s.sim, "Hca0001", s.dump)
	ctx := t.Context()
	set := func(node string, port int, field string, value uint64) {
		t.Helper()
		if err := s.sim.SetCounter(ctx, node, port, field, value); err != nil {
			t.Fatal(err)
		}
	}
	set("Leaf002", 5, "PortCounters.SymbolErrorCounter", 7)
	set("Leaf002", 5, "PortCounters.LinkErrorRecoveryCounter", 2)
	set("Leaf002", 5, "PortCounters.LinkDownedCounter", 3)
	set("Leaf002", 5, "PortCounters.PortRcvErrors", 11)
	set("Leaf002", 5, "PortCounters.PortRcvRemotePhysicalErrors", 12)
	set("Leaf002", 5, "PortCounters.PortXmitDiscards", 13)
	set("Leaf002", 5, "PortCounters.LocalLinkIntegrityErrors", 4)
	set("Leaf002", 5, "PortCounters.ExcessiveBufferOverrunErrors", 5)
	set("Leaf002", 5, "PortCounters.PortXmitWait", 99)
	set("Leaf002", 5, "PortCountersExtended.PortXmitPkts", 1<<40)
	set("Leaf002", 5, "PortCountersExtended.PortRcvPkts", 1<<41)
	set("Leaf002", 5, "PortCountersExtended.PortXmitData", 1<<42)
	set("Leaf002", 5, "PortCountersExtended.PortRcvData", 1<<43)
	set("Leaf002", 6, "PortCounters.SymbolErrorCounter", 65535)
	set("Spine001", 3, "PortCounters.SymbolErrorCounter", 1)
	wanted := []ports{{LID: s.lid("Leaf002"), Ports: []uint8{5, 6}}, {LID: s.lid("Spine001"), Ports: []uint8{3}}}
	read := func() [][]umad.PortCounters {
		t.Helper()
		got := c.do(order{Counters: wanted})
		if got.Err != "" {
			t.Fatal(got.Err)
		}
		return got.Counters
	}
	got := read()
	want := umad.PortCounters{DataSent: 1 << 42, Counters: ib.Counters{Symbols: 7, Recoveries: 2, Downed: 3, Received: 11, Discards: 13,
		Integrity: 4, Overruns: 5, Sent: 1 << 40, Wait: 99}}
	had := got[0][0]
	for _, c := range [][2]*uint64{{&had.Sent, &want.Sent}, {&had.DataSent, &want.DataSent}} {
		if more := *c[0] - *c[1]; more < 100_000 { // datagrams over this port
			*c[0] = *c[1]
		}
	}
	if had != want {
		t.Errorf("Leaf002/5: %+v\nwant %+v", had, want)
	}
	if c := got[0][1]; c.Symbols != 65535 || !c.Full {
		t.Errorf("Leaf002/6: %+v, want a counter that is full", c)
	}
	if c := got[1][0]; c.Symbols != 1 || c.Full {
		t.Errorf("Spine001/3: %+v", c)
	}
	set("Leaf002", 5, "PortCounters.SymbolErrorCounter", 0)
	if c := read()[0][0]; c.Symbols != 0 || c.Received != 11 {
		t.Errorf("after a reset: %+v", c)
	}
	wanted = append(wanted, ports{LID: 0, Ports: []uint8{1}}, ports{LID: s.lid("Leaf001"), Ports: []uint8{200}}, ports{LID: 4000, Ports: []uint8{1}})
	again := c.do(order{Counters: wanted})
	for i, part := range []string{"", "", "no LID yet", "status", "does not answer ClassPortInfo"} {
		if text := again.Why[i]; part == "" && text != "" || !strings.Contains(text, part) {
			t.Errorf("node %d: error %q, want %q in it", i, text, part)
		}
	}
}

// TestCountersOfAll reads both ends of all cables of FT(2;20,18).
func TestCountersOfAll(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), 0)
	c := attach(t, s.sim, "Hca0001", s.dump)
	var wanted []ports
	for i := range s.fabric.Nodes {
		n := &s.fabric.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		w := ports{LID: n.LID()}
		for p := range n.Ports {
			if n.Ports[p].Up() && s.fabric.Nodes[n.Ports[p].Peer].Kind == topology.Switch {
				w.Ports = append(w.Ports, uint8(p))
			}
		}
		wanted = append(wanted, w)
	}
	got := c.do(order{Counters: wanted})
	read := 0
	for i := range got.Counters {
		if got.Why[i] != "" {
			t.Error(got.Why[i])
		}
		read += len(got.Counters[i])
	}
	if read != 720 {
		t.Errorf("%d ports read, want 720", read)
	}
	t.Logf("%d ports of %d switches in %s", read, len(wanted), got.Took)
}

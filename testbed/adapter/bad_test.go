package adapter

import (
	"path/filepath"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// two brings up a fabric with a puppet on either leaf, and a connection between them
// that gives up after a few tenths of a second.
func two(t *testing.T) (w *world, a, b *puppet, x, y pair) {
	t.Helper()
	w = up(t, small, 0)
	a, b = w.puppet("Hca0000"), w.puppet("Hca0003")
	x, y = a.pair(8, "own"), b.pair(8, "own")
	join(a, b, x, y, 0, patience{14, 2, 2})
	return w, a, b, x, y
}

// small is a fabric with two hosts on each of two leaves.
var small = fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}

// exchanged checks that a message goes through in both directions.
func exchanged(a, b *puppet, x, y pair) {
	a.Helper()
	b.does("receive %d 1 0 4096", y.i)
	a.does("send %d 2 0 4096 loud 0", x.i)
	a.expect(success)
	b.expect(success)
	a.does("receive %d 3 0 10", x.i)
	b.does("send %d 4 0 10 loud 0", y.i)
	b.expect(success)
	a.expect(success)
}

// TestKilledPeer kills a program that others are connected with.
func TestKilledPeer(t *testing.T) {
	_, a, b, x, y := two(t)
	exchanged(a, b, x, y)
	_ = b.p.Process.Kill()
	_ = b.p.Wait()
	a.does("send %d 5 0 4096 loud 0", x.i)
	a.does("send %d 6 0 8 loud 0", x.i)
	a.expect(retryExceeded, flushed)
	a.end()
}

// TestKilledFabric kills the process that has the links.
func TestKilledFabric(t *testing.T) {
	w, a, b, x, y := two(t)
	exchanged(a, b, x, y)
	a.does("receive %d 5 0 8", x.i)
	_ = w.cmd.Process.Kill()
	<-w.ended
	a.does("send %d 6 0 8 loud 0", x.i)
	got := a.poll(2, withinRetryTime)
	if s := statuses(got); len(s) != 2 || s[0] != flushed || s[1] != flushed {
		t.Errorf("completions %+v", got)
	}
	if said := a.tell("event"); said != "8" {
		t.Errorf("event %s, want IBV_EVENT_DEVICE_FATAL", said)
	}
	a.end()
	b.end()
}

// TestLoops gives switches a table with a loop, one that leads to another host, one
// without an entry, and a dead cable on the way. Packets are lost, the connection fails
// after its retries, and a new one works once the table is right again.
func TestLoops(t *testing.T) {
	w, a, b, x, y := two(t)
	tables := func() *lft.Tables {
		c := &lft.Tables{}
		for _, s := range w.tables.Switches {
			s.Out = append([]uint8(nil), s.Out...)
			c.Switches = append(c.Switches, s)
		}
		return c
	}
	lid := ib.LID(y.lid)
	leaf1 := w.tables.Find(fabgen.LeafGUID + 1)
	loop, astray, none := tables(), tables(), tables()
	up := w.tables.Port(w.tables.Find(fabgen.LeafGUID), lid) // lanes have the same port on all leaves
	loop.Switches[leaf1].Out[lid] = up
	astray.Switches[leaf1].Out[lid] = 1 // Hca0002
	none.Switches[leaf1].Out[lid] = lft.NoPath
	for _, c := range []struct {
		name   string
		tables *lft.Tables
		lost   func(*Counters) uint64
	}{
		{"loop", loop, func(c *Counters) uint64 { return c.Loop }},
		{"wrong host", astray, func(c *Counters) uint64 { return c.WrongLID }},
		{"no entry", none, func(c *Counters) uint64 { return c.NoEntry }},
	} {
		exchanged(a, b, x, y)
		w.must(w.SetTables(c.tables))
		w.must(w.Clear())
		w.must(w.Sync(t.Context()))
		b.does("receive %d 5 0 8", y.i)
		a.does("send %d 6 0 8 loud 0", x.i)
		a.expect(retryExceeded)
		got, err := w.Count(t.Context())
		w.must(err)
		if c.lost(got) != 3 { // once and two retries
			t.Errorf("%s: lost packets %+v, want 3", c.name, got)
		}
		w.must(w.SetTables(w.tables))
		w.must(w.Sync(t.Context()))
		x, y = a.pair(8, "own"), b.pair(8, "own")
		join(a, b, x, y, 0, patience{14, 2, 2})
	}
	a.end()
	b.end()
}

// TestPulledCable pulls the cable that a connection uses, and puts it back before the
// retries are over: nothing is lost.
func TestPulledCable(t *testing.T) {
	w, a, b, _, _ := two(t)
	x, y := a.pair(8, "own"), b.pair(8, "own")
	join(a, b, x, y, 1, lasting) // by the second lane
	exchanged(a, b, x, y)
	leaf := w.fabric.Find(fabgen.LeafGUID)
	port := w.tables.Port(w.tables.Find(fabgen.LeafGUID), ib.LID(y.lid+1))
	pulled := w.fabric.Clone()
	pulled.Nodes[leaf].Ports[port].State = topology.Down
	w.must(w.SetLinks(pulled))
	w.must(w.Sync(t.Context()))
	b.does("receive %d 5 0 4096", y.i)
	a.does("send %d 6 0 4096 loud 0", x.i)
	if got := a.poll(1, 100); len(got) != 0 {
		t.Errorf("over a dead cable: %+v", got)
	}
	w.must(w.SetLinks(w.fabric))
	a.expect(success)
	b.expect(success)
	got, err := w.Count(t.Context())
	w.must(err)
	if got.DeadPort == 0 {
		t.Error("no packet was lost, so that this shows nothing")
	}
	a.end()
	b.end()
}

// TestWrongSource makes one side of a connection send from another source LID than the other
// side expects: its packets are dropped.
func TestWrongSource(t *testing.T) {
	_, a, b, _, _ := two(t)
	x, y := a.pair(8, "own"), b.pair(8, "own")
	a.does("connect %d %d %d 1 12 1 1 4", x.i, y.qpn, y.lid)
	b.does("connect %d %d %d 0 12 1 1 4", y.i, x.qpn, x.lid)
	b.does("receive %d 1 0 8", y.i)
	a.does("send %d 2 0 8 loud 0", x.i)
	a.expect(retryExceeded)
	if got := b.poll(1, 50); len(got) != 0 {
		t.Errorf("a packet with a wrong source LID arrived: %+v", got)
	}
	a.end()
	b.end()
}

// TestErrors makes operations fail, and checks how they fail.
func TestErrors(t *testing.T) {
	_, a, b, x, y := two(t)
	mistakes(t, a, b, x, y)
}

// TestSanitized does the same with the address sanitizer in the library, in the program
// and in the fabric, and with Valgrind.
func TestSanitized(t *testing.T) {
	t.Run("sanitizers", func(t *testing.T) {
		needs(t)
		dir := filepath.Join(scratch, "sanitized")
		flags := []string{"-O1", "-g", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
		if err := Build(t.Context(), dir, flags...); err != nil {
			t.Fatal(err)
		}
		bin, err := makePuppet("sanitized-puppet", flags[3:]...)
		if err != nil {
			t.Fatal(err)
		}
		w := upOf(t, dir, small, 0)
		a, b := w.puppetOf("Hca0000", bin), w.puppetOf("Hca0003", bin)
		apart(t, a, b)
		w.must(w.in.Close())
		<-w.ended
		if !w.cmd.ProcessState.Success() {
			t.Errorf("the fabric: %v", w.cmd.ProcessState)
		}
	})
	t.Run("valgrind", func(t *testing.T) {
		needs(t, "valgrind")
		bin, err := puppeteer()
		if err != nil {
			t.Fatal(err)
		}
		w := up(t, small, 0)
		check := []string{"valgrind", "-q", "--error-exitcode=9", "--leak-check=full", bin}
		a, b := w.puppetOf("Hca0000", check...), w.puppetOf("Hca0003", check...)
		apart(t, a, b)
	})
}

// apart connects two puppets, exchanges messages, and makes operations fail.
func apart(t *testing.T, a, b *puppet) {
	t.Helper()
	x, y := a.pair(8, "own"), b.pair(8, "own")
	join(a, b, x, y, 0, lasting)
	exchanged(a, b, x, y)
	a.does("write %d 1 0 5000 %d %d 0", x.i, b.address, b.key)
	a.does("read %d 2 8192 5000 %d %d 0", x.i, b.address, b.key)
	a.does("add %d 3 0 %d %d 5 0", x.i, b.address, b.key)
	a.expect(success, success, success)
	x, y = a.pair(8, "own"), b.pair(8, "own")
	join(a, b, x, y, 0, patience{14, 2, 2})
	mistakes(t, a, b, x, y)
}

func mistakes(t *testing.T, a, b *puppet, x, y pair) {
	t.Helper()
	again := func(p patience) {
		t.Helper()
		x, y = a.pair(4, "own"), b.pair(4, "own")
		join(a, b, x, y, 0, p)
	}
	a.does("send %d 1 0 8 loud 0", x.i) // no receive is posted
	a.expect(rnrExceeded)

	again(lasting)
	b.does("receive %d 1 0 100", y.i)
	b.does("receive %d 2 0 100", y.i)
	a.does("send %d 3 0 101 loud 0", x.i) // too long
	a.does("send %d 4 0 1 loud 0", x.i)
	a.expect(remInvReqErr, flushed)
	b.expect(locLenErr, flushed)

	again(lasting)
	a.does("write %d 1 0 8 %d %d 0", x.i, b.address+memory-4, b.key) // beyond the region
	a.expect(remAccessErr)
	again(lasting)
	a.does("read %d 1 0 8 %d %d 0", x.i, b.address, b.key+1) // another key
	a.expect(remAccessErr)
	again(lasting)
	a.does("write %d 1 %d 8 %d %d 0", x.i, memory-4, b.address, b.key) // beyond the own region
	a.expect(locProtErr)
	again(lasting)
	a.does("send %d 1 0 8 loud 12345", x.i) // no own key
	a.expect(locProtErr)

	again(lasting)
	for id := range 4 {
		b.does("receive %d %d 0 8", y.i, id)
	}
	if said := b.tell("receive %d 5 0 8", y.i); said != "error 12" {
		t.Errorf("a receive too many: %s", said)
	}
	if said := a.tell("send %d 1 0 65 inline 0", x.i); said != "error 22" {
		t.Errorf("too much inline: %s", said)
	}
	fresh := a.pair(4, "own")
	if said := a.tell("send %d 1 0 1 loud 0", fresh.i); said != "error 22" {
		t.Errorf("a send before the connection: %s", said)
	}
	b.does("fail %d", y.i)
	b.expect(flushed, flushed, flushed, flushed)

	shared := a.pair(4, "srq")
	a.does("fail %d", shared.i)
	if said := a.tell("event"); said != "16" {
		t.Errorf("event %s, want IBV_EVENT_QP_LAST_WQE_REACHED", said)
	}
	a.end()
	b.end()
}

package plugin

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
)

// held is what a plugin holds, by the letter of the protocol.
type held struct {
	switches map[ib.GUID]map[int][]byte // blocks
	sum      uint64
	blocks   int // that the last message brought
}

// apply takes the message tables in.
func (h *held) apply(t *testing.T, f frame, number uint64) {
	t.Helper()
	if f.kind != kindTables {
		t.Fatalf("message %#x came: %q", f.kind, f.body)
	}
	c := cursor{rest: f.body}
	if n := c.u64(); n != number {
		t.Fatalf("request %d is answered, not %d", n, number)
	}
	if base := c.u64(); base == 0 {
		h.switches = map[ib.GUID]map[int][]byte{}
	} else if base != h.sum {
		t.Fatalf("a change of %#x came, %#x is held", base, h.sum)
	}
	h.sum, h.blocks = c.u64(), 0
	for range c.u32() {
		g := c.guid()
		if h.switches[g] == nil {
			h.switches[g] = map[int][]byte{}
		}
		for range c.u16() {
			h.switches[g][int(c.u16())] = c.bytes(64)
			h.blocks++
		}
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
}

// is compares what is held with tables, LID by LID.
func (h *held) is(t *testing.T, want *lft.Tables) {
	t.Helper()
	if len(h.switches) != len(want.Switches) {
		t.Fatalf("%d switches of %d", len(h.switches), len(want.Switches))
	}
	for i := range want.Switches {
		for lid := range maxTable {
			got := lft.NoPath
			if b := h.switches[want.Switches[i].GUID][lid/64]; b != nil {
				got = b[lid%64]
			}
			if p := want.Port(i, ib.LID(lid)); p != got {
				t.Fatalf("switch %s LID %d: port %d, not %d", want.Switches[i].GUID, lid, got, p)
			}
		}
	}
}

// TestOnlyChanges asks again and again: what comes after the first tables is the
// blocks that differ, and nothing where nothing does.
func TestOnlyChanges(t *testing.T) {
	first, second := tablesOf(t)
	longer := &lft.Tables{Switches: append([]lft.Table(nil), second.Switches...)}
	longer.Switches[0].Out = append(append([]uint8(nil), longer.Switches[0].Out...), make([]uint8, 100)...)
	fewer := &lft.Tables{Switches: second.Switches[1:]}
	next := make(chan *lft.Tables, 1)
	f := startEnd(t, func(context.Context, Request) (*lft.Tables, error) { return <-next, nil })
	c := f.connect()
	c.send(kindFabric, fabricBody(t, 1, fabric(t, 5)))
	var h held
	before := &lft.Tables{}
	for i, step := range []struct {
		tables *lft.Tables
		forget bool // the plugin has lost what it held
		whole  bool // so that all of it must come
	}{{first, false, true}, {first, false, false}, {second, false, false}, {longer, false, false}, {first, false, false}, {second, true, true},
		{fewer, false, true}, {second, false, true}} {
		if step.forget {
			h = held{}
		}
		if step.whole {
			before = &lft.Tables{}
		}
		next <- step.tables
		c.send(kindRequest, requestBody(uint64(i+1), 1, h.sum, time.Minute))
		h.apply(t, c.read(), uint64(i+1))
		h.is(t, step.tables)
		if want := lft.Changes(before, step.tables).Blocks; h.blocks != want {
			t.Errorf("step %d: %d blocks came, %d differ", i, h.blocks, want)
		}
		before = step.tables
	}
}

// TestSum computes the sum by the letter of the protocol.
func TestSum(t *testing.T) {
	out := make([]uint8, 200)
	for lid := range out {
		out[lid] = lft.NoPath
	}
	out[3], out[130] = 1, 7
	tables := &lft.Tables{Switches: []lft.Table{{GUID: 5}, {GUID: 9, Out: out}}}
	ones := ^uint64(0)
	sum := uint64(0xCBF29CE484222325)
	for _, w := range []uint64{5, 9, 0, ones - 0xFE<<24, ones, ones, ones, ones, ones, ones, ones, 2, ones - 0xF8<<16, ones, ones, ones, ones, ones, ones, ones} {
		sum = (sum ^ w) * 0x100000001B3
	}
	if got := sumOf(tables); got != sum {
		t.Errorf("%#x, not %#x", got, sum)
	}
}

// TestSuperseded sends a second request before the first has an answer, lets an answer come
// late, and asks for tables of an inconsistent fabric.
func TestSuperseded(t *testing.T) {
	first, second := tablesOf(t)
	causes := make(chan error, 10)
	f := startEnd(t, func(ctx context.Context, r Request) (*lft.Tables, error) {
		if r.Number <= 2 {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return first, nil
		}
		return second, nil
	})
	c := f.connect()
	good := fabric(t, 5)
	c.send(kindFabric, fabricBody(t, 1, good))
	c.send(kindRequest, requestBody(1, 1, 0, time.Hour))
	c.send(kindRequest, requestBody(2, 1, 0, time.Millisecond))
	got := map[error]bool{<-causes: true, <-causes: true}
	if d := cmp.Diff(2, len(got)); d != "" || !got[errSuperseded] || !got[context.DeadlineExceeded] {
		t.Errorf("%v", got)
	}
	var h held
	h.apply(t, c.read(), 2) // late, but sent
	h.is(t, first)
	c.send(kindRequest, requestBody(3, 1, 0xABCD, time.Hour)) // sent before it came
	h.apply(t, c.read(), 3)
	h.is(t, second)

	bad := good.Clone()
	bad.Nodes[0].Ports[1].LID = bad.Nodes[1].Ports[1].LID
	c.send(kindFabric, fabricBody(t, 2, bad))
	c.send(kindUp, words(2))
	c.send(kindRequest, requestBody(4, 2, h.sum, time.Hour))
	if up := (<-f.events).(SubnetUp); up.Fabric != nil || up.Err == nil {
		t.Errorf("%+v", up)
	}
	if none := c.read(); none.kind != kindNone || binary.LittleEndian.Uint64(none.body) != 4 || len(none.body) < 20 {
		t.Errorf("%+v", none)
	}
}

// TestConcluded checks that the work for a request ends when OpenSM goes on without its tables,
// even if that is known before the deadline.
func TestConcluded(t *testing.T) {
	causes := make(chan error, 1)
	f := startEnd(t, func(ctx context.Context, _ Request) (*lft.Tables, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	c := f.connect()
	c.send(kindFabric, fabricBody(t, 1, fabric(t, 5)))
	c.send(kindRequest, requestBody(1, 1, 0, time.Hour))
	c.send(kindOutcome, append(words(1), byte(Late), 0, 0))
	if cause := <-causes; !errors.Is(cause, errConcluded) {
		t.Error(cause)
	}
}

// TestUnsendable holds that tables that the protocol cannot say are declined.
func TestUnsendable(t *testing.T) {
	for _, tables := range []*lft.Tables{{}, {Switches: []lft.Table{{GUID: 2}, {GUID: 1}}}, {Switches: []lft.Table{{GUID: 1, Out: make([]uint8, maxTable+1)}}}} {
		if _, _, err := encodeTables(1, tables, sent{}); err == nil {
			t.Errorf("%+v is sent", tables)
		}
	}
	f := startEnd(t, func(context.Context, Request) (*lft.Tables, error) { return nil, errors.New("not today") })
	c := f.connect()
	c.send(kindFabric, fabricBody(t, 1, fabric(t, 5)))
	c.send(kindRequest, requestBody(1, 1, 0, time.Hour))
	if d := cmp.Diff(append(words(1), "\x09\x00not today"...), c.read().body); d != "" {
		t.Error(d)
	}
}

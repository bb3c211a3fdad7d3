package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/forsd/forsd/lft"
)

// TestDeskServes answers a sweep that asks before the tables are there, when they come.
func TestDeskServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a, b := newDesk(), &lft.Tables{}, &lft.Tables{}
		d.offer("A", a)
		type answer struct {
			tables *lft.Tables
			err    error
		}
		asked := make(chan answer)
		ask := func(ctx context.Context, fabric string) {
			go func() {
				got, err := d.serve(ctx, fabric)
				asked <- answer{got, err}
			}()
			synctest.Wait()
		}
		d.started()
		ask(t.Context(), "A")
		if got := <-asked; got.tables != a || got.err != nil {
			t.Errorf("tables that are there: %+v", got)
		}
		ask(t.Context(), "B")
		d.offer("C", a)
		synctest.Wait()
		d.offer("B", b)
		if got := <-asked; got.tables != b || got.err != nil {
			t.Errorf("tables that come: %+v", got)
		}
		ask(t.Context(), "D")
		d.decline("D", "it is no tree")
		if got := <-asked; got.err == nil {
			t.Error("a fabric without tables got some")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ask(ctx, "E")
		late := errors.New("the deadline")
		cancel(late)
		if got := <-asked; !errors.Is(got.err, late) {
			t.Errorf("late: %+v", got)
		}
	})
}

// TestDeskCounts tells which sweep loads which tables: whether one under way will do,
// and whether one that has ended was the one.
func TestDeskCounts(t *testing.T) {
	d, a, b := newDesk(), &lft.Tables{}, &lft.Tables{}
	serve := func(fabric string) {
		t.Helper()
		if _, err := d.serve(t.Context(), fabric); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	d.offer("A", a)
	want("without a sweep one must be ordered", d.rely(), onNothing)
	want("what ends before the one ordered has begun", d.ended(), false)
	d.started()
	want("a sweep that has yet to ask will do", d.rely(), onSweep)
	serve("A")
	want("the sweep with these tables", d.ended(), true)

	d.offer("C", &lft.Tables{})
	d.started()
	serve("C")
	want("a sweep that ends before anybody asks", d.ended(), true)
	want("has loaded them", d.rely(), onPast)
	want("once", d.rely(), onNothing)
	d.offer("A", a)

	d.started()
	serve("A")
	d.offer("B", b)
	want("a sweep with older tables will not do", d.rely(), onNothing)
	want("nor does its end count", d.ended(), false)
	d.started()
	serve("B")
	want("one with the tables will", d.rely(), onSweep)
	want("but who asks again has waited in vain", d.rely(), onNothing)

	d.started()
	d.missed()
	want("a sweep that did without", d.rely(), onNothing)
	d.started()
	d.missed()
	want("ends as one by the file", d.ended(), true)
	d.started()
	d.reset()
	want("after the plugin has gone", d.rely(), onNothing)
}

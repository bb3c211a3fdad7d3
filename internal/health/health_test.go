package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTracker(t *testing.T) { synctest.Test(t, testTracker) }

func testTracker(t *testing.T) {
	var said []string
	tr := NewTracker([]Warnable{
		{Code: "slow", Severity: Degraded, Title: "Slow", Delay: time.Minute},
		{Code: "dead", Severity: Critical, Title: "Dead"},
	}, func(w Warning, on bool) { said = append(said, fmt.Sprintf("%s %v %s", w.Code, on, w.Text)) })
	start := time.Unix(1000, 0)
	tr.Raise("slow", "a", start)
	tr.Raise("slow", "a", start.Add(time.Second)) // no change
	tr.Clear("slow")                              // it was never announced
	tr.Raise("slow", "a", start)
	time.Sleep(time.Minute - time.Second)
	tr.Raise("slow", "b", start.Add(2*time.Second))
	tr.Raise("dead", "x", start.Add(3*time.Second))
	tr.Raise("odd", "y", start.Add(3*time.Second))
	codes := func(ws []Warning) (out []string) {
		for _, w := range ws {
			out = append(out, w.Code)
		}
		return out
	}
	if diff := cmp.Diff([]string{"dead", "odd"}, codes(tr.List(start.Add(4*time.Second)))); diff != "" {
		t.Error("before its delay a warning is shown:", diff)
	}
	list := tr.List(start.Add(time.Minute))
	if diff := cmp.Diff([]string{"dead", "odd", "slow"}, codes(list)); diff != "" {
		t.Error(diff)
	}
	if list[2].Text != "b" || !list[2].Since.Equal(start) {
		t.Errorf("a renewed warning lost its text or its beginning: %+v", list[2])
	}
	tr.Clear("dead")
	tr.Clear("dead")
	time.Sleep(time.Second)
	synctest.Wait()
	tr.Raise("slow", "c", start.Add(2*time.Minute))
	tr.Clear("slow")
	if diff := cmp.Diff([]string{"dead true x", "odd true y", "dead false x", "slow true b", "slow true c", "slow false c"}, said); diff != "" {
		t.Error(diff)
	}
}

func TestTrackerSet(t *testing.T) {
	tr, now := NewTracker(nil, nil), time.Unix(0, 0)
	tr.Raise("other", "stays", now)
	var many []Finding
	for i := range 12 {
		many = append(many, Finding{Code: "cable-down", Text: fmt.Sprint(i)})
	}
	tr.Set("fabric", append(many, Finding{Code: "spine-down", Text: "s"}), now)
	list := tr.List(now)
	if len(list) != 3 || list[0].Text != "0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 2 more" {
		t.Fatalf("got %+v", list)
	}
	tr.Set("another", []Finding{{Code: "spine-down", Text: "t"}}, now)
	tr.Set("another", nil, now)
	tr.Clear("spine-down")
	tr.Set("fabric", []Finding{{Code: "spine-down", Text: "s"}}, now)
	if list = tr.List(now); len(list) != 2 || list[0].Code != "other" || list[1].Code != "spine-down" {
		t.Fatalf("got %+v", list)
	}
}

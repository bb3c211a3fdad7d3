package liquid

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestVerifierFindsFaults breaks a liquid schedule in every possible way.
func TestVerifierFindsFaults(t *testing.T) {
	traffic := fig1(t)
	r, err := Make(context.Background(), traffic, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() Schedule {
		s := make(Schedule, len(r.Schedule))
		for i := range s {
			s[i] = slices.Clone(r.Schedule[i])
		}
		return s
	}
	for _, c := range []struct {
		want  string
		spoil func(s Schedule) Schedule
	}{
		{"is in no step", func(s Schedule) Schedule { s[0] = s[0][1:]; return s }},
		{"is in step 0 and in step 1", func(s Schedule) Schedule { s[1] = append(s[1], s[0][0]); return s }},
		{"is in step 2 and in step 2", func(s Schedule) Schedule { s[2] = append(s[2], s[2][0]); return s }},
		{"which does not exist", func(s Schedule) Schedule { s[0] = append(s[0], 25); return s }},
		{"which does not exist", func(s Schedule) Schedule { s[0][0] = -1; return s }},
		{"has no transfers", func(s Schedule) Schedule { return append(s, nil) }},
		{"two transfers on link", func(s Schedule) Schedule { s[0] = append(s[0], s[1]...); return slices.Delete(s, 1, 2) }},
	} {
		if err := Verify(traffic, c.spoil(fresh())); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	// An extra step for one transfer of a step gives a schedule, but not a liquid one.
	s := fresh()
	s = append(s, Schedule{s[0][:1]}...)
	s[0] = s[0][1:]
	if err := Verify(traffic, s); err != nil {
		t.Errorf("a longer schedule: %v", err)
	}
	if err := VerifyLiquid(traffic, s); err == nil || !strings.Contains(err.Error(), "idle, which is a bottleneck") {
		t.Errorf("a longer schedule is liquid: %v", err)
	}
}

// TestEveryPairCongests tries every pair of transfers in one step.
func TestEveryPairCongests(t *testing.T) {
	traffic := fig1(t)
	for x := range traffic.Len() {
		for y := range x {
			s := Schedule{{Transfer(y), Transfer(x)}}
			for z := range traffic.Len() {
				if z != x && z != y {
					s = append(s, []Transfer{Transfer(z)})
				}
			}
			if err := Verify(traffic, s); (err != nil) != naivelyCongest(traffic, Transfer(x), Transfer(y)) {
				t.Errorf("transfers %d and %d in one step: %v", y, x, err)
			}
		}
	}
}

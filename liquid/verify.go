package liquid

import "fmt"

// Verify returns the first error of a schedule of traffic t: a transfer that is in no
// step or in two, or does not exist; an empty step; or a link that two transfers of a
// step use. It shares no code with the methods that make schedules.
func Verify(t *Traffic, s Schedule) error {
	in := make([]int, t.Len()) // the step of a transfer, counted from 1
	taken := make([]struct {   // the last step that used a link, and its transfer there
		step int
		by   Transfer
	}, t.Links())
	for i, step := range s {
		if len(step) == 0 {
			return fmt.Errorf("step %d has no transfers", i)
		}
		for _, x := range step {
			if x < 0 || int(x) >= t.Len() {
				return fmt.Errorf("step %d has transfer %d, which does not exist: there are %d", i, x, t.Len())
			}
			if in[x] != 0 {
				return fmt.Errorf("transfer %d, %d→%d, is in step %d and in step %d", x, t.Pair(x).Src, t.Pair(x).Dst, in[x]-1, i)
			}
			in[x] = i + 1
			for _, l := range t.Path(x) {
				if taken[l].step == i+1 {
					y := taken[l].by
					return fmt.Errorf("step %d has two transfers on link %d: %d→%d and %d→%d", i, l,
						t.Pair(y).Src, t.Pair(y).Dst, t.Pair(x).Src, t.Pair(x).Dst)
				}
				taken[l].step, taken[l].by = i+1, x
			}
		}
	}
	for x, step := range in {
		if step == 0 {
			p := t.Pair(Transfer(x))
			return fmt.Errorf("transfer %d, %d→%d, is in no step", x, p.Src, p.Dst)
		}
	}
	return nil
}

// VerifyLiquid returns the first error of a liquid schedule: an error of Verify, or a
// step that leaves a bottleneck idle. A schedule is liquid if and only if every step
// uses all bottlenecks (section 3.1 of the paper).
func VerifyLiquid(t *Traffic, s Schedule) error {
	if err := Verify(t, s); err != nil {
		return err
	}
	most := 0
	load := make([]int, t.Links())
	for x := range t.Len() {
		for _, l := range t.Path(Transfer(x)) {
			load[l]++
			most = max(most, load[l])
		}
	}
	used := make([]int, t.Links()) // the last step that used a link, counted from 1
	for i, step := range s {
		for _, x := range step {
			for _, l := range t.Path(x) {
				used[l] = i + 1
			}
		}
		for l, n := range load {
			if n == most && used[l] != i+1 {
				return fmt.Errorf("step %d leaves link %d idle, which is a bottleneck", i, l)
			}
		}
	}
	return nil
}

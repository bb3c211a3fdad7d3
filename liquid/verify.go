package liquid

import "fmt"

// Verify tells the first thing that is wrong with a schedule of traffic t: a
// transfer that is in no step, in two, or does not exist; an empty step; a link
// that two transfers of a step use. It shares nothing with those who make
// schedules.
func Verify(t *Traffic, s Schedule) error {
	in := make(map[Transfer]int, t.Len())
	for i, step := range s {
		if len(step) == 0 {
			return fmt.Errorf("step %d has no transfers", i)
		}
		taken := make(map[Link]Transfer)
		for _, x := range step {
			if x < 0 || int(x) >= t.Len() {
				return fmt.Errorf("step %d has transfer %d, which does not exist: there are %d", i, x, t.Len())
			}
			if other, ok := in[x]; ok {
				return fmt.Errorf("transfer %d, %d→%d, is in step %d and in step %d", x, t.Pair(x).Src, t.Pair(x).Dst, other, i)
			}
			in[x] = i
			for _, l := range t.Path(x) {
				if y, ok := taken[l]; ok {
					return fmt.Errorf("step %d has two transfers on link %d: %d→%d and %d→%d", i, l,
						t.Pair(y).Src, t.Pair(y).Dst, t.Pair(x).Src, t.Pair(x).Dst)
				}
				taken[l] = x
			}
		}
	}
	for x := range t.Len() {
		if _, ok := in[Transfer(x)]; !ok {
			p := t.Pair(Transfer(x))
			return fmt.Errorf("transfer %d, %d→%d, is in no step", x, p.Src, p.Dst)
		}
	}
	return nil
}

// VerifyLiquid tells the first thing that is wrong with a schedule that shall be
// liquid: what Verify says, or a step that leaves a bottleneck idle. By section
// 3.1 of the paper that every step uses all bottlenecks is necessary and
// sufficient.
func VerifyLiquid(t *Traffic, s Schedule) error {
	if err := Verify(t, s); err != nil {
		return err
	}
	most := 0
	load := make(map[Link]int)
	for x := range t.Len() {
		for _, l := range t.Path(Transfer(x)) {
			load[l]++
			most = max(most, load[l])
		}
	}
	for i, step := range s {
		used := make(map[Link]bool)
		for _, x := range step {
			for _, l := range t.Path(x) {
				used[l] = true
			}
		}
		for l := range t.Links() {
			if load[Link(l)] == most && !used[Link(l)] {
				return fmt.Errorf("step %d leaves link %d idle, which is a bottleneck", i, l)
			}
		}
	}
	return nil
}

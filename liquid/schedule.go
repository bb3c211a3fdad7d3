package liquid

import "slices"

// Schedule is a partition of a traffic into steps, [step], whose transfers run
// at the same time. The transfers of a step ascend.
type Schedule [][]Transfer

// scheduleOf makes the schedule with k steps in which transfer x is in step
// step[x]. Empty steps are left out.
func scheduleOf(step []int32, k int) Schedule {
	count := make([]int, k)
	for _, s := range step {
		count[s]++
	}
	s := make(Schedule, k)
	for i, n := range count {
		s[i] = make([]Transfer, 0, n)
	}
	for x, i := range step {
		s[i] = append(s[i], Transfer(x))
	}
	return slices.DeleteFunc(s, func(step []Transfer) bool { return len(step) == 0 })
}

// Throughput is the number of transfers over the number of steps, in units of the
// throughput of one link; 0 without transfers. It is the aggregate throughput if
// all transfers take the same time.
func (s Schedule) Throughput() float64 {
	if len(s) == 0 {
		return 0
	}
	n := 0
	for _, step := range s {
		n += len(step)
	}
	return float64(n) / float64(len(s))
}

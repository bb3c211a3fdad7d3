package topology

import "fmt"

// tooDeep ends the verdict on fat trees of more than three levels.
const tooDeep = "there are four levels or more, and plans are made for two and three"

// fourLevels finds that the tops do not join the pods, and that there are switches above
// them.
func (c *podCore) fourLevels() error {
	above := None
	for i := range c.Nodes {
		if c.level[i] != noLevel || c.Nodes[i].Kind != Switch {
			continue
		}
		for _, j := range c.near[i].switches {
			if c.level[j] == topLevel && above == None {
				above = int32(i)
			}
		}
	}
	if above == None {
		return nil
	}
	hosts, total := make([]int, c.pods), 0
	joined := make([]map[[2]int32]bool, c.pods) // [pod] by class and top
	for p := range joined {
		joined[p] = map[[2]int32]bool{}
	}
	for i := range c.Nodes {
		switch c.level[i] {
		case leafLevel:
			hosts[c.pod[i]] += c.near[i].hosts
			total += c.near[i].hosts
		case midLevel:
			for _, t := range c.tops(int32(i)) {
				joined[c.pod[i]][[2]int32{int32(c.class[i]), t}] = true
			}
		}
	}
	unmet, example := 0, [2]int{}
	for p := range joined {
		for q := range p {
			meet := false
			for lane := range joined[p] {
				meet = meet || joined[q][lane]
			}
			if !meet {
				unmet += 2 * hosts[p] * hosts[q]
				example = [2]int{q, p}
			}
		}
	}
	if unmetShare*unmet <= total*(total-1) {
		return nil
	}
	return &NotFatTree{"switch " + c.Nodes[above].String(), fmt.Sprintf("sits above the third level, and pods %d and %d share no switch of that: %s", example[0], example[1], tooDeep)}
}

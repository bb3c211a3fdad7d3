package verify

import (
	"fmt"
	"math/bits"
	"strings"
)

// words is the length of a set of ports.
const words = ports / 64

// wait records that a packet which holds channel a may wait for channel b.
func (c *delivery) wait(a, b channel) {
	q := uint(b) & (ports - 1)
	c.waits[int(a)*words+int(q>>6)] |= 1 << (q & 63)
}

// acyclic searches for a cycle of the channel dependency graph (Dally and Seitz): without
// one, no set of packets can block itself forever. Channels to hosts depend on nothing and
// are left out.
func (c *delivery) acyclic() *Violation {
	const (
		fresh = iota
		open
		done
	)
	state := make([]uint8, len(c.next))
	var path []channel
	var visit func(a channel) int // the place in path where a cycle closes, or −1
	visit = func(a channel) int {
		state[a] = open
		path = append(path, a)
		base := c.next[a] << portBits
		for w, set := range c.waits[int(a)*words:][:words] {
			for ; set != 0; set &= set - 1 {
				b := base | channel(w<<6+bits.TrailingZeros64(set))
				switch state[b] {
				case open:
					for i := range path {
						if path[i] == b {
							return i
						}
					}
				case fresh:
					if i := visit(b); i >= 0 {
						return i
					}
				}
			}
		}
		path = path[:len(path)-1]
		state[a] = done
		return -1
	}
	for a := range c.next {
		if state[a] == fresh && c.isSwitch(c.next[a]) {
			if i := visit(channel(a)); i >= 0 {
				return c.deadlock(path[i:])
			}
		}
	}
	return nil
}

// deadlock describes a cycle of channels, with the lowest LID that makes each wait for the
// next.
func (c *delivery) deadlock(cycle []channel) *Violation {
	var b strings.Builder
	for i, a := range cycle {
		next := cycle[(i+1)%len(cycle)]
		fmt.Fprintf(&b, "%s waits for %s", c.portLabel(a), c.portLabel(next))
		for lid := range c.owner {
			if c.owner[lid] != nowhere && c.through(a>>portBits, lid) == a && c.through(next>>portBits, lid) == next {
				fmt.Fprintf(&b, " with LID %d", lid)
				break
			}
		}
		if i < len(cycle)-1 {
			b.WriteString(", ")
		}
	}
	return violation(Deadlock, NoPhase, "the channel dependency graph has a cycle: %s", b.String())
}

package topology

import (
	"slices"

	"github.com/forsd/forsd/ib"
)

// Exchanges divide servers into groups: a server exchanges data with those of its group, and
// sends nothing to others.
type Exchanges struct {
	Names []string
	Of    map[ib.GUID]int // [port GUID] index in Names
}

// Divide returns a tree with the hosts on leaves that x lists as its servers, each in its
// exchange; all others are bystanders. A nil x returns the tree.
func (x *Exchanges) Divide(t *FatTree) *FatTree {
	if x == nil {
		return t
	}
	return With(t, func(c *Common) {
		c.Exchanges, c.Hosts, c.Servers = x.Names, slices.Clone(t.Hosts), nil
		c.Findings = slices.DeleteFunc(slices.Clone(t.Findings), func(f Finding) bool { return f.Code == LeafBinds || f.Code == FewSpineCables }) // of one exchange of all
		for i := range c.Hosts {
			h := &c.Hosts[i]
			h.Exchange, h.Server = x.Of[h.GUID], false
			if _, listed := x.Of[h.GUID]; listed && h.Leaf >= 0 && h.LID != 0 {
				h.Server = true
				c.Servers = append(c.Servers, i)
			}
		}
	})
}

// Noting returns the tree with one finding more.
func (t *FatTree) Noting(f Finding) *FatTree {
	return With(t, func(c *Common) { c.Findings = append(slices.Clone(c.Findings), f) })
}

// With returns the tree after a change of what trees of any levels have.
func With(t *FatTree, change func(*Common)) *FatTree {
	out := *t
	if change(&out.Common); t.Pods != nil {
		pods := *t.Pods
		pods.Common, out.Pods = out.Common, &pods
	}
	return &out
}

// ExchangeOf returns the exchange of a server, 0 if there is one of all.
func (t *Common) ExchangeOf(h *Host) int {
	if len(t.Exchanges) < 2 {
		return 0
	}
	return h.Exchange
}

// Together reports whether two servers, by index in Servers, are in the same exchange.
func (t *Common) Together(s, d int) bool {
	return t.ExchangeOf(&t.Hosts[t.Servers[s]]) == t.ExchangeOf(&t.Hosts[t.Servers[d]])
}

// Pairs counts the ordered pairs of servers that exchange data.
func (t *Common) Pairs() (pairs int) {
	for _, servers := range t.ByExchange() {
		pairs += len(servers) * (len(servers) - 1)
	}
	return pairs
}

// ByExchange returns the servers of each exchange.
func (t *Common) ByExchange() [][]EndPort {
	out := make([][]EndPort, max(1, len(t.Exchanges)))
	for _, i := range t.Servers {
		x := t.ExchangeOf(&t.Hosts[i])
		out[x] = append(out[x], t.Hosts[i].EndPort)
	}
	return out
}

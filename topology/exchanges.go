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

// Divide returns the tree with the hosts on leaves that x lists as its servers, each in its
// exchange; all others are bystanders. A nil x returns the tree.
func (t *FatTree) Divide(x *Exchanges) *FatTree {
	if x == nil {
		return t
	}
	out := *t
	out.Exchanges, out.Hosts, out.Servers = x.Names, slices.Clone(t.Hosts), nil
	out.Findings = slices.DeleteFunc(slices.Clone(t.Findings), func(f Finding) bool { return f.Code == LeafBinds || f.Code == FewSpineCables }) // of one exchange of all
	for i := range out.Hosts {
		h := &out.Hosts[i]
		h.Exchange, h.Server = x.Of[h.GUID], false
		if _, listed := x.Of[h.GUID]; listed && h.Leaf >= 0 && h.LID != 0 {
			h.Server = true
			out.Servers = append(out.Servers, i)
		}
	}
	return &out
}

// ExchangeOf returns the exchange of a server, 0 if there is one of all.
func (t *FatTree) ExchangeOf(h *Host) int {
	if len(t.Exchanges) < 2 {
		return 0
	}
	return h.Exchange
}

// ByExchange returns the servers of each exchange.
func (t *FatTree) ByExchange() [][]EndPort {
	out := make([][]EndPort, max(1, len(t.Exchanges)))
	for _, i := range t.Servers {
		x := t.ExchangeOf(&t.Hosts[i])
		out[x] = append(out[x], t.Hosts[i].EndPort)
	}
	return out
}

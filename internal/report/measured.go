package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
)

// Measured is a cable at its rate and as exchanges have measured it.
type Measured struct {
	Cable string  `json:"cable"`
	Rate  string  `json:"rate"` // such as 4xHDR
	Gbps  float64 `json:"rate_gbps"`
	api.MeasuredCable
}

// measured lists the measured cables of a fabric, the slowest first. Of a cable that several
// exchanges have measured it takes the one with the most transfers.
func measured(exchanges []api.Measured, cabling *api.Cabling) []Measured {
	type ends [2]place
	best := map[ends]*api.MeasuredCable{}
	for i := range exchanges {
		for j := range exchanges[i].Cables {
			c := &exchanges[i].Cables[j]
			at := ends{{node: c.A.GUID, port: c.A.Port}, {node: c.B.GUID, port: c.B.Port}}
			if best[at] == nil || best[at].Transfers < c.Transfers {
				best[at] = c
			}
		}
	}
	var out []Measured
	for i := range cabling.Links {
		l := &cabling.Links[i]
		if c := best[ends{{node: l.A.GUID, port: l.A.Port}, {node: l.B.GUID, port: l.B.Port}}]; c != nil {
			out = append(out, Measured{fmt.Sprintf("%s port %d – %s port %d", l.A.Name, l.A.Port, l.B.Name, l.B.Port), l.Rate, ib.ParseRate(l.Rate).Gbps(), *c})
		}
	}
	slices.SortStableFunc(out, func(a, b Measured) int { return cmp.Compare(b.Slowdown, a.Slowdown) })
	return out
}

// addSlow adds the slow cables to the differences, except those that are below their rate or in
// wrong ports, which explains it.
func (c *Comparison) addSlow(all []Measured) {
	for i := range all {
		m := &all[i]
		ends := [2]place{{node: m.A.GUID, port: m.A.Port}, {node: m.B.GUID, port: m.B.Port}}
		known := slices.ContainsFunc(c.Differences, func(d Difference) bool {
			return d.ends == ends || d.ends == [2]place{ends[1], ends[0]}
		})
		if !m.Slow || known {
			continue
		}
		c.Faults++
		c.Counts[Slow]++
		c.Differences = append(c.Differences, Difference{Kind: Slow, Cable: m.Cable, Fault: c.Faults, ends: ends, slowdown: m.Slowdown,
			Now: []string{fmt.Sprintf("transfers take %.1f %% ± %.1f %% longer", 100*m.Slowdown, 100*m.Error)}})
	}
}

// stays is by how much longer than others the transfers of some cable take once a fault is mended.
func (c *Comparison) stays(fault int) (most float64) {
	for i := range c.Differences {
		if d := &c.Differences[i]; d.Fault != fault {
			most = max(most, d.slowdown)
		}
	}
	return most
}

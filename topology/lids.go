package topology

import (
	"fmt"

	"github.com/forsd/forsd/ib"
)

// PretendLMC gives every end port of an adapter or router this LMC. If its LIDs leave no
// room for that, all LIDs are renumbered, as a subnet manager may do; again reports that.
func PretendLMC(f *Fabric, lmc uint8) (anew bool, err error) {
	hosts, switches := 0, 0
	for _, p := range lidPorts(f) {
		if p.host {
			hosts++
		} else {
			switches++
		}
	}
	need := func(lmc uint8) int { return (hosts+1)<<lmc + switches } // LIDs begin at 1, those of hosts at multiples
	if need(lmc) > int(ib.MaxUnicastLID)+1 {
		fits := lmc
		for fits > 0 && need(fits) > int(ib.MaxUnicastLID)+1 {
			fits--
		}
		return false, fmt.Errorf("%d host ports with 2^%d LIDs each and %d switches need %d LIDs, and there are %d: the largest LMC that fits is %d",
			hosts, lmc, switches, need(lmc)-1, ib.MaxUnicastLID, fits)
	}
	if f.SetLMC(lmc) == nil {
		return false, nil
	}
	next := ib.LID(1) << lmc
	for _, host := range []bool{true, false} {
		for _, p := range lidPorts(f) {
			if p.host != host {
				continue
			}
			p.port.LID = next
			if next++; host {
				next += 1<<lmc - 1
			}
		}
	}
	return true, f.SetLMC(lmc)
}

// lidPort is a port that has an LID.
type lidPort struct {
	port *Port
	host bool
}

func lidPorts(f *Fabric) (out []lidPort) {
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; port.LID != 0 {
				out = append(out, lidPort{port, f.Nodes[i].Kind != Switch})
			}
		}
	}
	return out
}

package nics

import (
	"slices"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
)

// Within plans an exchange of a cluster, or of a site, and pins it on the lanes of a fabric. It also plans
// within the lanes, of which leaves may have too few for the stages, and returns the plan that takes the
// least time. Pin returns nil if the fabric has no lanes.
func Within(c gpu.Cluster, site *gpu.Site, o gpu.Options, plan func(*gpu.Site, gpu.Options) (*gpu.Plan, error), pin func(*gpu.Plan) (*lanes.Plan, error)) (*gpu.Plan, *lanes.Plan, error) {
	best, err := plan(site, o)
	if err != nil {
		return nil, nil, err
	}
	pinned, err := pin(best)
	if err != nil || pinned == nil || site != nil && site.Rails || !slices.Contains([]gpu.Mode{"", gpu.Auto, gpu.Bytes}, o.Mode) {
		return best, pinned, err
	}
	if site == nil {
		site = c.Uniform()
	}
	p, err := plan(onLeaves(site, best, pinned), o)
	if err != nil {
		return best, pinned, nil // the time is up, or the stages are too many
	}
	x, err := pin(p)
	if err == nil && seconds(p, x, o.Model) < seconds(best, pinned, o.Model) {
		best, pinned = p, x
	}
	return best, pinned, err
}

// onLeaves returns a site with the lanes and leaves of a pinned plan of it.
func onLeaves(s *gpu.Site, p *gpu.Plan, pinned *lanes.Plan) *gpu.Site {
	site := &gpu.Site{Lanes: &gpu.Lanes{Count: pinned.Lanes, Down: pinned.Down}}
	for _, x := range s.Servers {
		x.NICs = slices.Clone(x.NICs)
		site.Servers = append(site.Servers, x)
	}
	for r, leaf := range pinned.Leaf {
		nic := r % p.GPUs
		if p.Site != nil {
			nic = p.Site.Place[r].NIC
		}
		if leaf >= 0 {
			site.Servers[r/p.GPUs].NICs[nic].Leaf = leaf
		}
	}
	return site
}

// seconds is the predicted time of a plan whose stages are pinned.
func seconds(p *gpu.Plan, pinned *lanes.Plan, m gpu.Model) float64 {
	times := m.Predict(p)
	return times.Total - times.Stages + pinned.Seconds
}

package nics

import (
	"slices"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
)

// Within plans an exchange of a cluster, or of a site, and pins it on the lanes of a fabric. It also plans
// within the lanes, of which leaves may have too few for the stages, also as if a leaf had one less, and
// returns the plan that takes the least time. Pin returns nil if the fabric has no lanes.
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
	within := onLeaves(site, best, pinned)
	for leaf := -1; leaf < min(len(within.Lanes.Down), leavesTried); leaf++ {
		p, err := plan(fewer(within, leaf), o)
		if err != nil {
			break // the time is up, or the stages are too many
		}
		x, err := pin(p)
		if err != nil {
			return best, pinned, err
		}
		if seconds(p, x, o.Model) < seconds(best, pinned, o.Model) {
			best, pinned = p, x
		}
		if o.Budget > 0 || best.Outlook != nil && seconds(best, pinned, o.Model) < enough*best.Outlook.Least {
			break
		}
	}
	return best, pinned, nil
}

// How many leaves are planned as if they had one lane less, because other stages may be fewer, and
// how many times the least possible time a plan takes for which that is not tried.
const (
	leavesTried = 8
	enough      = 1.01
)

// fewer returns a site with one lane less at a leaf, or the site itself if the leaf is negative.
func fewer(s *gpu.Site, leaf int) *gpu.Site {
	if leaf < 0 {
		return s
	}
	out := &gpu.Site{Servers: s.Servers, Lanes: &gpu.Lanes{Count: s.Lanes.Count, Down: slices.Clone(s.Lanes.Down)}}
	for lane, down := 0, s.Lanes.Down[leaf]; lane < s.Lanes.Count; lane++ {
		if !slices.Contains(down, lane) {
			out.Lanes.Down[leaf] = append(slices.Clone(down), lane)
			break
		}
	}
	return out
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

// Package nics uses hosts of a fabric as the NICs of a GPU cluster. It asks a forsd for the
// ports that are down, so that exchanges are planned around them, and for lanes on which the
// stages of a plan are free of conflict.
package nics

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
)

// Report is a plan in readable form, with its use of a fabric.
type Report struct {
	*gpu.Report
	Fabric *lanes.Plan `json:"fabric,omitempty"`
}

// Cluster has the NICs of a cluster's servers, the same number for each server.
type Cluster struct {
	Hosts []string // names or port GUIDs, server by server
	Bad   []string // NICs that are down or slower, in the format of gpu.Site.Fail
	Notes []string // remarks about them
	Lanes int      // of the fabric; 0 if stages cannot be pinned on lanes
}

// Fabric is the fabric of a forsd.
type Fabric struct{ Client *api.Client }

// Cluster finds hosts by their names or port GUIDs. Without names, the NICs are all hosts of
// the fabric, in its order, including those that are down. If stages can be pinned on lanes, a
// slower NIC is noted and treated like any other, because pinned transfers use a whole NIC.
func (f Fabric) Cluster(ctx context.Context, names []string, servers int) (*Cluster, error) {
	all, err := f.Client.HostPorts(ctx)
	if err != nil {
		return nil, err
	}
	number, count := map[string]int{}, map[string]int{}
	for i, h := range all.Hosts {
		number[h.Name], number[h.GUID.String()] = i, i
		count[h.Name]++
	}
	c := &Cluster{Hosts: names, Lanes: all.Lanes}
	if len(names) == 0 {
		for _, h := range all.Hosts {
			c.Hosts = append(c.Hosts, h.GUID.String())
		}
	}
	if servers < 1 || len(c.Hosts) == 0 || len(c.Hosts)%servers != 0 {
		return nil, fmt.Errorf("%d NICs of %d servers: want as many of each: name the hosts that are the NICs", len(c.Hosts), servers)
	}
	each := len(c.Hosts) / servers
	for i, name := range c.Hosts {
		at, is := number[name]
		switch {
		case !is:
			return nil, fmt.Errorf("%.100s is not a host of the fabric: want names or port GUIDs of hosts that take part in exchanges", name)
		case count[name] > 1:
			return nil, fmt.Errorf("%d hosts are called %.100s: name this one by its port GUID", count[name], name)
		}
		h := &all.Hosts[at]
		nic := fmt.Sprintf("%d:%d", i/each, i%each)
		switch {
		case h.Percent == 0:
			c.Bad = append(c.Bad, nic)
			c.Notes = append(c.Notes, fmt.Sprintf("NIC %s, %s, is down and is planned around", nic, h.Name))
		case h.Percent < 100 && c.Lanes > 0:
			c.Notes = append(c.Notes, fmt.Sprintf("NIC %s, %s, runs at %d %% of the fastest, and its transfers will take longer than predicted", nic, h.Name, h.Percent))
		case h.Percent < 100:
			c.Bad = append(c.Bad, fmt.Sprintf("%s:%d", nic, h.Percent))
			c.Notes = append(c.Notes, fmt.Sprintf("NIC %s, %s, runs at %d %% of the fastest and is given less", nic, h.Name, h.Percent))
		}
	}
	if c.Lanes == 0 {
		c.Notes = append(c.Notes, "the fabric is not a fat tree of two levels: stages are not pinned on lanes")
	}
	return c, nil
}

// Pin requests the lanes of a plan's stages. It returns nil if the fabric has no lanes.
func (f Fabric) Pin(ctx context.Context, c *Cluster, p *gpu.Plan, m gpu.Model) (*lanes.Plan, error) {
	if c.Lanes == 0 {
		return nil, nil
	}
	q, err := Request(p, m, c.Hosts)
	if err != nil {
		return nil, err
	}
	pinned := &lanes.Plan{}
	if err := f.Client.Call(ctx, http.MethodPost, "/v1/gpu/lanes", q, pinned); err != nil {
		return nil, err
	}
	if err := pinned.Carries(q); err != nil {
		return nil, fmt.Errorf("the answer of forsd to /v1/gpu/lanes is wrong: %w", err)
	}
	return pinned, nil
}

// Request builds the request for the lanes of a plan whose NICs are hosts, server by server.
func Request(p *gpu.Plan, m gpu.Model, hosts []string) (*lanes.Request, error) {
	if len(hosts)%p.Servers != 0 {
		return nil, fmt.Errorf("%d NICs of %d servers: want as many of each", len(hosts), p.Servers)
	}
	each := len(hosts) / p.Servers
	q := &lanes.Request{Hosts: make([]string, p.Ranks()), Stages: []lanes.Stage{}, BytesPerSecond: m.B2, LatencySeconds: m.Latency.Seconds()}
	for r := range q.Hosts {
		server, nic := r/p.GPUs, r%p.GPUs
		if p.Site != nil {
			nic = p.Site.Place[r].NIC
		}
		switch {
		case nic >= each:
			return nil, fmt.Errorf("NIC %d of server %d is not in the fabric: there are %d of each server", nic, server, each)
		case nic >= 0:
			q.Hosts[r] = hosts[server*each+nic]
		}
	}
	for i := range p.Stages {
		var stage lanes.Stage
		for _, t := range p.Stages[i].Transfers {
			stage = append(stage, lanes.Send{From: int32(t.From), To: int32(t.To), Offset: t.Offset, Bytes: t.Bytes})
		}
		q.Stages = append(q.Stages, stage)
	}
	return q, nil
}

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

package gpu

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anySite draws servers with different numbers of GPUs and NICs, some dead or slower.
func anySite(t *rapid.T) *Site {
	s := &Site{Servers: make([]Server, rapid.IntRange(1, 6).Draw(t, "servers"))}
	for i := range s.Servers {
		x := &s.Servers[i]
		x.GPUs = rapid.IntRange(1, 4).Draw(t, "GPUs")
		for g := range x.GPUs {
			if rapid.IntRange(0, 9).Draw(t, "dies") == 0 {
				x.DeadGPUs = append(x.DeadGPUs, g)
			}
			for range rapid.IntRange(0, 2).Draw(t, "NICs") {
				x.NICs = append(x.NICs, NIC{GPU: g, Speed: rapid.Int64Range(0, 4).Draw(t, "speed"), Rail: g})
			}
		}
	}
	return s
}

// siteBytes draws the bytes that the live GPUs of a site send each other; those of servers
// without a NIC send only inside.
func siteBytes(t *rapid.T, s *Site, p *Places) []int64 {
	channels := make([]int64, p.Servers)
	for _, x := range p.Place {
		channels[x.Server] += int64(min(1, x.NIC+1))
	}
	var server, number []int
	for i := range s.Servers {
		for g := range s.Servers[i].GPUs {
			server, number = append(server, i), append(number, g)
		}
	}
	n := len(server)
	bytes := make([]int64, n*n)
	most := rapid.SampledFrom([]int64{1, 5, 1000, 1 << 30}).Draw(t, "most")
	for at := range bytes {
		a, b := at/n, at%n
		dead := slices.Contains(s.Servers[server[a]].DeadGPUs, number[a]) || slices.Contains(s.Servers[server[b]].DeadGPUs, number[b])
		if dead || server[a] != server[b] && (channels[server[a]] == 0 || channels[server[b]] == 0) {
			continue
		}
		bytes[at] = rapid.Int64Range(0, most).Draw(t, "bytes")
	}
	return bytes
}

// With any dead, slower or missing parts, every byte arrives over live NICs, and the certificate
// proves the bound, which plans of mode bytes attain but for a byte for each server.
func TestPlanSite(t *testing.T) {
	var p Planner
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		bytes := siteBytes(t, s, must(s.Places(mostParts)))
		for _, mode := range []Mode{Auto, Bytes} {
			plan, err := p.PlanSite(t.Context(), s, bytes, Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if err := VerifySite(t.Context(), s, bytes, plan); err != nil {
				t.Fatal(err)
			}
			if mode == Bytes && plan.Length > plan.Bound+int64(len(s.Servers)) {
				t.Fatalf("length %d, and the bound is %d", plan.Length, plan.Bound)
			}
		}
	})
}

// The next frame after NICs have died one after the other: the same traffic is planned at the
// bound of the remaining NICs, and dead NICs carry nothing. Bytes that only a dead NIC could
// carry, or a dead GPU would have to send, are refused.
func TestFramesAfterFailures(t *testing.T) {
	s := Cluster{4, 3}.Uniform()
	traffic := uniform(Cluster{4, 3}, 1)
	var p Planner
	last := int64(0)
	for _, dead := range [][2]int{{-1, 0}, {2, 0}, {2, 1}, {0, 2}} {
		if dead[0] >= 0 {
			s.Servers[dead[0]].NICs[dead[1]].Speed = 0
		}
		plan, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
			t.Fatal(err)
		}
		if dead[0] < 0 && plan.Bound != traffic.Bound() || plan.Bound < last {
			t.Errorf("after %v: bound %d, before %d, Eq. 26 of all %d", dead, plan.Bound, last, traffic.Bound())
		}
		last = plan.Bound
		// The same plan was valid on the site before the failure, but is not any longer.
		s.Servers[1].NICs[1].Speed = 0
		if VerifySite(t.Context(), s, traffic.Bytes, plan) == nil {
			t.Errorf("after %v: transfers of the dead NIC 1 of server 1 are not detected", dead)
		}
		s.Servers[1].NICs[1].Speed = 1
	}
	s.Servers[2].NICs[2].Speed = 0
	if _, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{}); err == nil {
		t.Error("server 2 has no NIC, but its traffic is planned")
	}
	s.Servers[2].NICs[2].Speed = 1
	s.Servers[0].DeadGPUs = []int{1}
	if _, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{}); err == nil {
		t.Error("GPU 1 of server 0 is dead, but its traffic is planned")
	}
}

// Slower NICs are used as far as finer channels allow: one of half the speed of four others
// carries half as much, and one NIC of five times the speed carries a server's traffic alone.
func TestSlowNICs(t *testing.T) {
	s := Cluster{2, 4}.Uniform()
	for i := range s.Servers {
		for k := range s.Servers[i].NICs {
			s.Servers[i].NICs[k].Speed = 2
		}
	}
	s.Servers[0].NICs[3].Speed = 1
	traffic := must(NewTraffic(Cluster{2, 4}))
	traffic.Bytes[4] = 7 << 30
	var p Planner
	plan := must(p.PlanSite(t.Context(), s, traffic.Bytes, Options{Mode: Bytes}))
	if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
		t.Fatal(err)
	}
	if plan.Site.Unit != 1 || plan.Length != 1<<30 {
		t.Errorf("channels of %d of 2, length %d: want 7 GiB over 7 channels of 1", plan.Site.Unit, plan.Length)
	}
	if got, want := DefaultModel.Predict(plan).Stages, float64(1<<30)/(DefaultModel.B2/2); got < want || got > want*1.01 {
		t.Errorf("%v s of stages, want %v", got, want)
	}
}

// A server whose only NIC is extremely slow takes part, and its speed determines the bound.
func TestVerySlowNIC(t *testing.T) {
	var p Planner
	for _, percent := range []int64{12, 10, 1} {
		for _, rails := range []bool{false, true} {
			s := Cluster{3, 1}.Uniform()
			for i := range s.Servers {
				s.Servers[i].NICs[0].Speed = 100
			}
			s.Rails = rails
			s.Servers[1].NICs[0].Speed = percent
			traffic := uniform(Cluster{3, 1}, 5)
			plan, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{})
			if err != nil {
				t.Fatalf("%d percent, rails %v: %v", percent, rails, err)
			}
			if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
				t.Error(err)
			}
			if plan.Certificate.Server != 1 || plan.Certificate.Channels != 1 {
				t.Errorf("%d percent, rails %v: certificate %+v, want one channel of server 1", percent, rails, plan.Certificate)
			}
			s.Servers[0].NICs[0].Speed = 1e12
			if _, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{}); err == nil || !strings.Contains(err.Error(), "so slow that the fastest") {
				t.Errorf("%d percent of 1, and 1e12: %v", percent, err)
			}
		}
	}
}

// Channels are only as fine as the rails that two servers share require: finer ones would be
// too many.
func TestVerySlowRail(t *testing.T) {
	c := Cluster{8, 4}
	s := c.Uniform()
	s.Rails = true
	if err := s.Fail([]string{"0:0", "0:1", "0:2", "0:3:10", "5:1:1"}, nil); err != nil {
		t.Fatal(err)
	}
	traffic := uniform(c, 5)
	var p Planner
	plan := must(p.PlanSite(t.Context(), s, traffic.Bytes, Options{}))
	if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil || plan.Site.Unit != 10 {
		t.Errorf("channels of %d percent: %v", plan.Site.Unit, err)
	}
}

// Wrong statistics and certificates of a plan are detected.
func TestVerifySiteFinds(t *testing.T) {
	s := Cluster{4, 2}.Uniform()
	s.Servers[1].NICs[0].Speed = 0
	traffic := uniform(Cluster{4, 2}, 3)
	var p Planner
	for what, spoil := range map[string]func(p *Plan){
		"length":             func(p *Plan) { p.Length-- },
		"bound":              func(p *Plan) { p.Bound-- },
		"busiest":            func(p *Plan) { p.Busiest[1]++ },
		"no certificate":     func(p *Plan) { p.Certificate = nil },
		"another server":     func(p *Plan) { p.Certificate.Server = (p.Certificate.Server + 1) % 4 },
		"fewer channels":     func(p *Plan) { p.Certificate.Channels-- },
		"more bytes":         func(p *Plan) { p.Certificate.Bytes++ },
		"other direction":    func(p *Plan) { p.Certificate.Receives = !p.Certificate.Receives },
		"a NIC of another":   func(p *Plan) { p.Site.Place[0].GPU = 1 },
		"a NIC that is dead": func(p *Plan) { p.Site.Place[2].NIC = 0 },
		"a GPU left out":     func(p *Plan) { p.Site.Place[7].GPU = 0 },
		"longer units":       func(p *Plan) { p.Site.Unit = 2 },
	} {
		plan := must(p.PlanSite(t.Context(), s, traffic.Bytes, Options{}))
		if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
			t.Fatal(err)
		}
		spoil(plan)
		if VerifySite(t.Context(), s, traffic.Bytes, plan) == nil {
			t.Errorf("%s: not found", what)
		}
	}
}

// If NICs reach only those of their rail, plans are within a thousandth of a bound that prices
// prove, with any failures.
func TestRails(t *testing.T) {
	var p Planner
	rapid.Check(t, func(t *rapid.T) {
		c := Cluster{rapid.IntRange(2, 8).Draw(t, "servers"), rapid.IntRange(1, 8).Draw(t, "GPUs")}
		s := c.Uniform()
		s.Rails = true
		for range rapid.IntRange(0, c.Ranks()/3).Draw(t, "failures") {
			s.Servers[rapid.IntRange(0, c.Servers-1).Draw(t, "server")].NICs[rapid.IntRange(0, c.GPUs-1).Draw(t, "NIC")].Speed = 0
		}
		traffic := must(NewTraffic(c))
		most := rapid.SampledFrom([]int64{1, 1000, 1 << 30}).Draw(t, "most")
		for at := range traffic.Bytes {
			traffic.Bytes[at] = rapid.Int64Range(0, most).Draw(t, "bytes")
		}
		for _, mode := range []Mode{Auto, Bytes} {
			plan, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{Mode: mode})
			if err != nil {
				t.Skip(err)
			}
			if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
				t.Fatal(err)
			}
			if most := plan.Bound + plan.Bound/1000 + int64(c.Servers); mode == Bytes && plan.Length > most {
				t.Fatalf("length %d, and the bound is %d", plan.Length, plan.Bound)
			}
		}
	})
}

// Amounts beyond the precision of floating point are planned at their bound, and huge numbers
// of rails are refused before memory is allocated for them.
func TestRailsAtTheirLimits(t *testing.T) {
	s := Cluster{2, 1}.Uniform()
	s.Rails = true
	bytes := []int64{0, 1<<55 + 1, 1, 0}
	var p Planner
	plan := must(p.PlanSite(t.Context(), s, bytes, Options{}))
	if err := VerifySite(t.Context(), s, bytes, plan); err != nil || plan.Bound != bytes[1] {
		t.Errorf("bound %d, want %d: %v", plan.Bound, bytes[1], err)
	}
	s.Servers[0].NICs[0].Rail, s.Servers[1].NICs[0].Rail = MaxRanks, MaxRanks
	if _, err := p.PlanSite(t.Context(), s, bytes, Options{}); err == nil {
		t.Errorf("rail %d is planned", MaxRanks)
	}
	const servers = 256
	many := Cluster{servers, 1}.Uniform()
	many.Rails = true
	many.Servers[0].NICs[0].Rail = MaxRanks - 1
	if _, err := p.PlanSite(t.Context(), many, make([]int64, servers*servers), Options{}); err == nil {
		t.Errorf("%d rails of %d servers are planned", MaxRanks, servers)
	}
}

// A rail that only two servers have: server 2 has two NICs, and receives all data over one of
// them. Prices prove the bound, and wrong prices are rejected.
func TestRailsNeedPrices(t *testing.T) {
	s := Cluster{3, 2}.Uniform()
	s.Rails = true
	s.Servers[0].NICs[0].Speed, s.Servers[1].NICs[0].Speed = 0, 0
	traffic := must(NewTraffic(Cluster{3, 2}))
	traffic.Bytes[0*6+4], traffic.Bytes[2*6+5] = 1<<30, 1<<30
	var p Planner
	plan := must(p.PlanSite(t.Context(), s, traffic.Bytes, Options{}))
	if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
		t.Fatal(err)
	}
	if plan.Bound != 2<<30 || plan.Length != 2<<30 || len(plan.Certificate.Prices) == 0 {
		t.Errorf("length %d, bound %d, certificate %+v: want 2 GiB, which prices prove", plan.Length, plan.Bound, plan.Certificate)
	}
	prices := plan.Certificate.Prices
	for what, list := range map[string][]Price{
		"another rail": {{2, 0, true, 1}}, "another server": {{0, 1, true, 1}}, "no price": {{2, 1, true, 0}},
		"a price twice": append(slices.Clone(prices), prices...), "all": {{2, 0, true, 1}, {2, 1, true, 1}},
	} {
		plan.Certificate.Prices = list
		if VerifySite(t.Context(), s, traffic.Bytes, plan) == nil {
			t.Errorf("%s: %+v is believed", what, list)
		}
	}
	s.Servers[2].NICs[1].Speed = 0
	if _, err := p.PlanSite(t.Context(), s, traffic.Bytes, Options{}); err == nil {
		t.Error("no rail joins servers 0 and 2, but their traffic is planned")
	}
}

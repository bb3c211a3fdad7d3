package photonic

// Use is the share of links in use in each of a number of equal spans of a plan's time. No
// link is in use during a reconfiguration. For rounds it is the mean over the round.
func (p *Plan) Use(in *Instance, spans int) []float64 {
	use := make([]float64, spans)
	if p.Cost == 0 {
		return use
	}
	long := float64(p.Cost) / float64(spans)
	add := func(from, to Time, links float64) {
		for i := int(float64(from) / long); i < spans && float64(i)*long < float64(to); i++ {
			use[i] += links * (min(float64(to), float64(i+1)*long) - max(float64(from), float64(i)*long)) / (long * float64(in.GPUs*in.Degree))
		}
	}
	begin := p.begins(in)
	for i := range p.Rounds {
		r := &p.Rounds[i]
		moves := 0
		for _, path := range r.Paths {
			for _, s := range path.Switches {
				if s != Wait {
					moves++
				}
			}
		}
		end := begin[r.Topology] + Time(r.Hops)*p.hopTime(in, r)
		add(begin[r.Topology], end, float64(moves*in.GPUs)/float64(max(1, r.Hops)))
		begin[r.Topology] = end
	}
	for _, h := range p.Hops {
		from := begin[h.Topology] + h.Start
		add(from, from+in.chunkTime(h.Flow, h.Chunk), 1)
	}
	return use
}

// Keeps returns the duration of each topology.
func (p *Plan) Keeps(in *Instance) []Time {
	if len(p.Spans) > 0 {
		return p.Spans
	}
	keep := make([]Time, len(p.Topologies))
	for i := range p.Rounds {
		r := &p.Rounds[i]
		keep[r.Topology] += Time(r.Hops) * p.hopTime(in, r)
	}
	return keep
}

// begins returns the time at which each topology is configured.
func (p *Plan) begins(in *Instance) []Time {
	begin := make([]Time, len(p.Topologies))
	at := Time(0)
	for t, keep := range p.Keeps(in) {
		begin[t] = at + in.Reconfig
		at = begin[t] + keep
	}
	return begin
}

package photonic

// Direct links serve n−1 classes, one per switch. If k does not divide n−1, the last r < k
// classes share all k switches, chunk by chunk.

// share is a topology of the last classes: the first extra of them have links+1 switches,
// the others links, for the time of a number of chunks.
type share struct{ links, extra, chunks int }

// shares divides k switches between r classes with a number of chunks left, and returns the
// time that takes: all classes are sent at once, or those with more links finish first and
// leave theirs to the others.
func shares(in *Instance, r, chunks int) ([]share, Time) {
	k, full := in.Degree, in.Link.ChunkTime(min(in.Link.Chunk, in.Message))
	links := k / r
	once := share{links, k - links*r, (chunks + links - 1) / links}
	best, least := []share{once}, in.Reconfig+Time(once.chunks)*full
	if links == 1 { // with the last chunk, which may be smaller
		least = in.Reconfig + in.T() - Time(int(in.Link.Chunks(in.Message))-chunks)*full
	}
	first := share{once.links, once.extra, (chunks + links) / (links + 1)}
	if rest := chunks - links*first.chunks; first.extra > 0 && rest > 0 {
		more, took := shares(in, r-first.extra, rest)
		if took += in.Reconfig + Time(first.chunks)*full; took < least {
			best, least = append([]share{first}, more...), took
		}
	}
	return best, least
}

// planLeftover gives every message a direct link, and the last classes several switches. It
// returns nil if the switches divide the classes, if the plan has too many moves, or if it
// does not beat the known plan, if any.
func planLeftover(in *Instance, known *Plan) *Plan {
	n, k := in.GPUs, in.Degree
	rest, chunks := (n-1)%k, int(in.Link.Chunks(in.Message))
	if rest == 0 || n*n > maxMoves/2 || n*n*chunks > maxReplayed {
		return nil
	}
	last, took := shares(in, rest, chunks)
	whole := (n - 1) / k
	if known != nil && took+Time(whole)*(in.Reconfig+in.T()) >= known.Cost {
		return nil
	}
	p := &Plan{GPUs: n, Degree: k, Family: "circulant"}
	for t := range whole {
		offsets := make([]int, k)
		for s := range k {
			offsets[s] = t*k + s + 1
			p.shift(offsets[s], s, Whole, 0)
		}
		p.Topologies, p.Spans = append(p.Topologies, Topology{Offsets: offsets}), append(p.Spans, in.T())
	}
	sent, class := make([]int, rest), 0 // chunks of each class; the first that is not sent yet
	for _, x := range last {
		offsets, span := make([]int, 0, k), Time(0)
		for i := class; i < rest; i++ {
			links := x.links
			if i < class+x.extra {
				links++
			}
			for range links {
				s, at := len(offsets), Time(0)
				offsets = append(offsets, n-rest+i)
				for range min(x.chunks, chunks-sent[i]) {
					p.shift(offsets[s], s, sent[i], at)
					at += in.Link.ChunkTime(min(in.Link.Chunk, in.Message-int64(sent[i])*in.Link.Chunk))
					sent[i]++
				}
				span = max(span, at)
			}
		}
		class += x.extra
		p.Topologies, p.Spans = append(p.Topologies, Topology{Offsets: offsets}), append(p.Spans, span)
	}
	return p.finish(in)
}

// shift sends a chunk of each message of a class over a switch of the next topology.
func (p *Plan) shift(class, s, chunk int, at Time) {
	for u := range p.GPUs {
		p.Hops = append(p.Hops, Hop{at, int32(u*p.GPUs + (u+class)%p.GPUs), int32(chunk), int16(len(p.Topologies)), int16(s)})
	}
}

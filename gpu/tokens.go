package gpu

import (
	"context"
	"slices"
)

// Tokens are what the GPUs of a mixture of experts exchange: the tokens of each GPU, all of one
// size, and the GPUs with the experts of each token.
type Tokens struct {
	Cluster
	Bytes int64 // of a token

	first []int   // [rank] its first token; the last element is the number of tokens
	ends  []int   // [token] where its needs end
	needs []Rank  // of each token: the GPUs with any of its experts, rising
	times []int32 // [need] how many of its experts the GPU has
	rows  []int32 // [need] the token's row in the output of the GPU
	count []int32 // [rank] rows of its output

	// A batch is the tokens that one GPU sends another if each is sent once to each server.
	begins []int32 // [source][destination] of batches in list, and its length
	list   []int32 // tokens
	sums   []int32 // [index in list][GPU] tokens before it that the GPU of the destination's server needs
}

func newTokens(c Cluster, bytes int64) *Tokens {
	return &Tokens{Cluster: c, Bytes: bytes, first: make([]int, c.Ranks()+1), count: make([]int32, c.Ranks())}
}

// append appends the next token, with the GPU of each of its experts.
func (x *Tokens) append(experts []Rank) {
	slices.Sort(experts)
	for at, to := range experts {
		if at > 0 && to == experts[at-1] {
			x.times[len(x.times)-1]++
			continue
		}
		x.needs, x.times, x.rows = append(x.needs, to), append(x.times, 1), append(x.rows, x.count[to])
		x.count[to]++
	}
	x.ends = append(x.ends, len(x.needs))
}

// of returns where the needs of a token begin and end.
func (x *Tokens) of(token int) (begin, end int) {
	if token > 0 {
		begin = x.ends[token-1]
	}
	return begin, x.ends[token]
}

// in returns the GPUs of a server that need a token.
func (x *Tokens) in(server, token int) []Rank {
	begin, end := x.of(token)
	for begin < end && x.server(x.needs[begin]) < server {
		begin++
	}
	for end > begin && x.server(x.needs[end-1]) > server {
		end--
	}
	return x.needs[begin:end]
}

// row returns the row of a token in the output of a GPU that needs it.
func (x *Tokens) row(r Rank, token int32) (row int64, needed bool) {
	begin, end := x.of(int(token))
	at, needed := slices.BinarySearch(x.needs[begin:end], r)
	if !needed {
		return 0, false
	}
	return int64(x.rows[begin+at]), true
}

// each calls f with the tokens that are sent, and their sources and destinations. Tokens that
// are sent once to each server go directly to each GPU of their own server, and in another to
// the GPU of the source's number, if it needs them, or to that with the fewest so far.
func (x *Tokens) each(once Once, f func(token int, source, to Rank)) {
	load := make([]int, x.Ranks())
	for source := range Rank(x.Ranks()) {
		for token := x.first[source]; token < x.first[source+1]; token++ {
			for at, end := x.of(token); at < end; {
				to, server := x.needs[at], x.server(x.needs[at])
				for range x.times[at] - 1 {
					if once == ToExpert {
						f(token, source, to)
					}
				}
				for at++; once == ToServer && server != x.server(source) && at < end && x.server(x.needs[at]) == server; at++ {
					same := int(source)%x.GPUs == int(to)%x.GPUs
					if r := x.needs[at]; int(source)%x.GPUs == int(r)%x.GPUs || !same && load[r] < load[to] {
						to = r
					}
				}
				if server != x.server(source) {
					load[to]++
				}
				f(token, source, to)
			}
		}
	}
}

// Traffic returns the bytes that GPUs send each other if each token is sent so often. Of ToServer,
// the destination in another server is one of the GPUs that need the token. The traffic of the
// way back is the transpose.
func (x *Tokens) Traffic(once Once) *Traffic {
	t := &Traffic{Cluster: x.Cluster, Bytes: make([]int64, x.Ranks()*x.Ranks())}
	x.each(once, func(_ int, source, to Rank) { t.Bytes[int(source)*x.Ranks()+int(to)] += x.Bytes })
	return t
}

// Sent returns the bytes that NICs send in all if each token is sent so often.
func (x *Tokens) Sent(once Once) (sum int64) {
	for _, v := range x.Traffic(once).Pairs() {
		sum += v
	}
	return sum
}

// batch makes the batches.
func (x *Tokens) batch() {
	ranks, m := x.Ranks(), x.GPUs
	x.begins = make([]int32, ranks*ranks+1)
	x.each(ToServer, func(_ int, source, to Rank) { x.begins[int(source)*ranks+int(to)+1]++ })
	for at := range ranks * ranks {
		x.begins[at+1] += x.begins[at]
	}
	next := slices.Clone(x.begins)
	x.list = make([]int32, x.begins[ranks*ranks])
	x.sums = make([]int32, (len(x.list)+1)*m)
	x.each(ToServer, func(token int, source, to Rank) {
		at := &next[int(source)*ranks+int(to)]
		x.list[*at] = int32(token)
		*at++
	})
	for batch, first := range x.begins[:ranks*ranks] {
		for at := first; at < x.begins[batch+1]; at++ {
			after := x.sums[int(at+1)*m:][:m]
			copy(after, x.sums[int(at)*m:])
			for _, to := range x.in(batch%ranks/m, int(x.list[at])) {
				after[int(to)%m]++
			}
		}
	}
}

// sends reports whether a rank has tokens that are needed anywhere.
func (x *Tokens) sends(r Rank) bool {
	if x.first[r] == x.first[r+1] {
		return false
	}
	begin, _ := x.of(x.first[r])
	_, end := x.of(x.first[r+1] - 1)
	return begin < end
}

// on places the tokens of GPUs on a cluster of places, in the same order.
func (x *Tokens) on(c Cluster, place func(Rank) Rank) *Tokens {
	y := newTokens(c, x.Bytes)
	y.ends, y.times, y.rows, y.needs = x.ends, x.times, x.rows, make([]Rank, len(x.needs))
	for at, r := range x.needs {
		y.needs[at] = place(r)
	}
	for r := range Rank(x.Ranks()) {
		y.count[place(r)], y.first[place(r)+1] = x.count[r], x.first[r+1]-x.first[r]
	}
	for r := range c.Ranks() {
		y.first[r+1] += y.first[r]
	}
	y.batch()
	return y
}

// units is the traffic of ToServer in tokens.
func (x *Tokens) units() *Traffic {
	t := &Traffic{Cluster: x.Cluster, Bytes: make([]int64, x.Ranks()*x.Ranks()), tokens: x}
	for at := range t.Bytes {
		t.Bytes[at] = int64(x.begins[at+1] - x.begins[at])
	}
	return t
}

// stretch returns the tokens of a stretch of a batch, in bytes.
func (x *Tokens) stretch(source, destination Rank, offset, bytes int64) []int32 {
	first := int64(x.begins[int(source)*x.Ranks()+int(destination)]) + offset/x.Bytes
	return x.list[first : first+bytes/x.Bytes]
}

// handed counts the tokens of a segment, in tokens, that a GPU of the receiving server needs.
func (x *Tokens) handed(s *Segment, gpu int) int64 {
	first := int(x.begins[int(s.Source)*x.Ranks()+int(s.Destination)]) + int(s.Offset)
	return int64(x.sums[(first+int(s.Bytes))*x.GPUs+gpu] - x.sums[first*x.GPUs+gpu])
}

// copies is the number of tokens that each GPU of the busiest server hands on, if they do alike.
func (x *Tokens) copies() (most int64) {
	ranks, m := x.Ranks(), x.GPUs
	servers := make([]int64, x.Servers)
	for batch := range ranks * ranks {
		if i, j := batch/ranks/m, batch%ranks/m; i != j {
			s := Segment{Source: Rank(batch / ranks), Destination: Rank(batch % ranks), Bytes: int64(x.begins[batch+1] - x.begins[batch])}
			servers[j] -= s.Bytes // at the GPU that receives them
			for k := range m {
				servers[j] += x.handed(&s, k)
			}
		}
	}
	return over(slices.Max(servers), int64(m))
}

// PlanTokens makes a plan in which each token is sent once to each other server with any of its
// experts, and is handed on there alongside the next stage by the GPU whose NIC received it.
// Tokens are not divided: the length is a multiple of their size, and so is the bound. It fails
// as Plan does.
func (p *Planner) PlanTokens(ctx context.Context, x *Tokens, o Options) (*Plan, error) {
	return p.planUnits(ctx, x.units(), o)
}

// planUnits plans a traffic in tokens.
func (p *Planner) planUnits(ctx context.Context, t *Traffic, o Options) (*Plan, error) {
	o, err := o.inTokens(t.tokens.Bytes)
	if err != nil {
		return nil, err
	}
	plan, err := p.Plan(ctx, t, o)
	if plan != nil {
		plan.inBytes(t.tokens)
	}
	return plan, err
}

// ChooseTokens is Choose for PlanTokens and OwnTokens.
func (p *Planner) ChooseTokens(ctx context.Context, x *Tokens, o Options) (Options, float64, Outlook, error) {
	units, err := o.inTokens(x.Bytes)
	if err != nil {
		return o, 0, Outlook{}, err
	}
	chosen, seconds, outlook, err := p.Choose(ctx, x.units(), units)
	chosen.Grain, chosen.MaxStage, chosen.Model = o.Grain, chosen.MaxStage*x.Bytes, o.Model
	return chosen, seconds, outlook, err
}

// OwnTokens makes the program of one rank, as PlanTokens does with the same options in mode
// Bytes, and that of its way back, as Return does.
func (p *Planner) OwnTokens(ctx context.Context, x *Tokens, rank Rank, o Options) (there, back *Own, err error) {
	t := x.units()
	if o, err = o.inTokens(x.Bytes); err != nil {
		return nil, nil, err
	}
	if err := o.checkOwn(t, rank); err != nil {
		return nil, nil, err
	}
	plan, err := p.bytes(ctx, t, o, t.server(rank))
	if err != nil {
		return nil, nil, err
	}
	plan.inBytes(x)
	if there, err = plan.own(ctx, rank); err != nil {
		return nil, nil, err
	}
	back = &Own{reversed(&there.Program, len(there.Lengths), x.Bytes), slices.Clone(there.Lengths)}
	slices.Reverse(back.Lengths)
	return there, back, nil
}

// handedOn returns how many tokens of a segment, in tokens, move from the GPU whose NIC receives
// them.
func (p *Plan) handedOn(x *Tokens, s *Segment) (sum int64) {
	first := s.In - s.In%Rank(p.GPUs)
	for k := range p.GPUs {
		if first+Rank(k) != p.home(s.In) {
			sum += x.handed(s, k)
		}
	}
	return sum
}

// inTokens converts options from bytes to tokens of a size.
func (o Options) inTokens(bytes int64) (Options, error) {
	if err := o.check(); err != nil {
		return o, err
	}
	o.Model = o.Model.orDefault()
	o.Model.B1 /= float64(bytes)
	o.Model.B2 /= float64(bytes)
	o.Grain = over(o.Grain, bytes)
	if o.MaxStage > 0 {
		o.MaxStage = max(1, o.MaxStage/bytes)
	}
	return o, nil
}

// inBytes converts a plan from tokens to bytes.
func (p *Plan) inBytes(x *Tokens) {
	p.Tokens = x
	unit := x.Bytes
	if p.Certificate != nil {
		c := *p.Certificate
		c.Bytes *= unit
		p.Certificate = &c
	}
	for _, v := range []*int64{&p.Grain, &p.Bound, &p.Length, &p.MovesBefore, &p.MovesAfter} {
		*v *= unit
	}
	for at := range p.Busiest {
		p.Busiest[at] *= unit
	}
	for i := range p.Stages {
		p.Stages[i].Length *= unit
		for at := range p.Stages[i].Transfers {
			x := &p.Stages[i].Transfers[at]
			x.Offset, x.Bytes, x.Skip = x.Offset*unit, x.Bytes*unit, x.Skip*unit
		}
	}
	for at := range p.Segments {
		p.Segments[at].Offset *= unit
		p.Segments[at].Bytes *= unit
	}
	for at := range p.Local {
		p.Local[at].Offset *= unit
		p.Local[at].Bytes *= unit
	}
}

// Return returns the plan of the way back of a plan of PlanTokens: the stages from the last to
// the first, with senders and receivers exchanged. The results for a token are summed in each
// server before they are sent, and once more at its source.
func (p *Plan) Return() *Plan {
	b := *p
	b.Returns = !p.Returns
	last := len(p.Stages) - 1
	b.Stages = make([]Stage, len(p.Stages))
	for i := range p.Stages {
		s := Stage{p.Stages[i].Length, slices.Clone(p.Stages[i].Transfers)}
		for at := range s.Transfers {
			x := &s.Transfers[at]
			x.From, x.To = x.To, x.From
		}
		b.Stages[last-i] = s
	}
	b.Segments = slices.Clone(p.Segments)
	for at := range b.Segments {
		s := &b.Segments[at]
		s.Source, s.Destination, s.Out, s.In = s.Destination, s.Source, s.In, s.Out
	}
	b.Local = slices.Clone(p.Local)
	slices.Reverse(b.Local)
	for at := range b.Local {
		x := &b.Local[at]
		x.Source, x.Destination, x.Beside = x.Destination, x.Source, last-x.Beside
	}
	if p.Certificate != nil {
		c := *p.Certificate
		c.Receives, c.Prices = !c.Receives, slices.Clone(c.Prices)
		for at := range c.Prices {
			c.Prices[at].Receives = !c.Prices[at].Receives
		}
		b.Certificate = &c
	}
	b.MovesBefore, b.MovesAfter = p.MovesAfter, p.MovesBefore
	b.Busiest = slices.Clone(p.Busiest)
	slices.Reverse(b.Busiest)
	return &b
}

package gpu

import (
	"fmt"
	"slices"
)

// Once is the kind of receiver to which a token is sent at most once.
type Once string

// A token is sent to each of its experts; once to each GPU with any of its experts; or once
// to each server, where the receiving GPU forwards it to the others itself.
const (
	ToExpert Once = "expert"
	ToGPU    Once = "gpu"
	ToServer Once = "server"
)

// Placement lists the GPUs of each expert, [expert]: several for a redundant expert.
type Placement [][]Rank

// Blocks places experts in blocks: with twice as many as GPUs, GPU 0 has the first two.
func (c Cluster) Blocks(experts int) (Placement, error) {
	if experts < c.Ranks() || experts%c.Ranks() != 0 {
		return nil, fmt.Errorf("%d experts on %d GPUs: want as many on each, one at least", experts, c.Ranks())
	}
	p := make(Placement, experts)
	for e := range p {
		p[e] = []Rank{Rank(e / (experts / c.Ranks()))}
	}
	return p, nil
}

func (p Placement) check(c Cluster) error {
	for e, list := range p {
		if len(list) == 0 {
			return fmt.Errorf("expert %d is on no GPU", e)
		}
		for _, r := range list {
			if r < 0 || int(r) >= c.Ranks() {
				return fmt.Errorf("expert %d is on GPU %d: want 0 to %d", e, r, c.Ranks()-1)
			}
		}
	}
	return nil
}

// nearest returns the GPU of an expert for a token of a source: the source itself, a GPU in its
// server, or the expert's GPUs in turn.
func (p Placement) nearest(c Cluster, expert int, source Rank, token int) Rank {
	list := p[expert]
	if slices.Contains(list, source) {
		return source
	}
	for _, r := range list {
		if c.server(r) == c.server(source) {
			return r
		}
	}
	return list[token%len(list)]
}

// FromTopK makes traffic from the experts that routers choose for tokens, [token][choice],
// the same number of tokens for each GPU, those of GPU 0 first; −1 means no expert. If there
// are as many choices as experts, all of them 0 or 1, it is a map instead, [token][expert].
// tokenBytes is the size of a token. The traffic of the way back is the transpose.
func FromTopK(c Cluster, chosen []float64, choices int, p Placement, once Once, tokenBytes int64) (*Traffic, error) {
	t, err := NewTraffic(c)
	if err != nil {
		return nil, err
	}
	if err := p.check(c); err != nil {
		return nil, err
	}
	tokens := len(chosen) / max(1, choices)
	switch {
	case choices < 1 || len(chosen) != tokens*choices || tokens%c.Ranks() != 0:
		return nil, fmt.Errorf("%d tokens with %d choices are not as many for each of %d GPUs", tokens, choices, c.Ranks())
	case tokenBytes < 1 || tokenBytes > 1<<30:
		return nil, fmt.Errorf("%d bytes a token: want 1 to %d", tokenBytes, 1<<30)
	case once != ToExpert && once != ToGPU && once != ToServer:
		return nil, fmt.Errorf("a token is sent once to each %q: want %q, %q or %q", once, ToExpert, ToGPU, ToServer)
	}
	each := tokens / c.Ranks()
	marked := choices == len(p) && choices > 2 && !slices.ContainsFunc(chosen, func(v float64) bool { return v != 0 && v != 1 })
	var sent []Rank
	for token := range tokens {
		source := Rank(token / each)
		sent = sent[:0]
		for k, v := range chosen[token*choices : (token+1)*choices] {
			if v == -1 || marked && v == 0 {
				continue
			}
			if marked {
				v = float64(k)
			}
			if v < 0 || v >= float64(len(p)) || v != float64(int(v)) {
				return nil, fmt.Errorf("token %d, choice %d is expert %v: want 0 to %d, or -1 for none", token, k, v, len(p)-1)
			}
			to := p.nearest(c, int(v), source, token)
			if !slices.ContainsFunc(sent, func(r Rank) bool {
				return once == ToGPU && r == to || once == ToServer && c.server(r) == c.server(to)
			}) {
				sent = append(sent, to)
				t.Bytes[int(source)*c.Ranks()+int(to)] += tokenBytes
			}
		}
	}
	return t, t.check()
}

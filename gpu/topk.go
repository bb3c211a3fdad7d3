package gpu

import (
	"fmt"
	"slices"
)

// Once is the kind of receiver to which a token is sent at most once.
type Once string

// A token is sent to each of its experts; once to each GPU with any of its experts; or once
// to each other server, where a NIC's GPU hands it on to those with its experts.
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

// FromTopK makes tokens from the experts that routers choose for them, [token][choice], the
// same number of tokens for each GPU, those of GPU 0 first; −1 means no expert. If there are as
// many choices as experts, all of them 0 or 1, it is a map instead, [token][expert]. tokenBytes
// is the size of a token.
func FromTopK(c Cluster, chosen []float64, choices int, p Placement, tokenBytes int64) (*Tokens, error) {
	if err := c.check(); err != nil {
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
	case len(chosen) > 1<<29: // bytes stay below maxTotal, and places in lists within 32 bits
		return nil, fmt.Errorf("%d choices: want at most %d", len(chosen), 1<<29)
	}
	each := tokens / c.Ranks()
	x := newTokens(c, tokenBytes)
	for r := range x.first {
		x.first[r] = r * each
	}
	marked := choices == len(p) && choices > 2 && !slices.ContainsFunc(chosen, func(v float64) bool { return v != 0 && v != 1 })
	var experts []Rank
	for token := range tokens {
		experts = experts[:0]
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
			experts = append(experts, p.nearest(c, int(v), Rank(token/each), token))
		}
		x.append(experts)
	}
	x.batch()
	return x, nil
}

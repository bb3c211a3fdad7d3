package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// VerifyTokens is Verify for a plan of PlanTokens, and for its way back. It executes the programs
// with a number in place of each token, which the way back adds: every GPU must get each token
// that it needs in its row and, on the way back, each source the sum of one number from each GPU
// that needs the token. NICs must send a token once to each other server.
func VerifyTokens(ctx context.Context, x *Tokens, p *Plan) error {
	if p.Tokens == nil {
		return errors.New("this is not a plan of tokens")
	}
	programs, err := p.Programs(ctx)
	if err != nil {
		return err
	}
	lengths := make([]int64, len(p.Stages))
	for i := range p.Stages {
		lengths[i] = p.Stages[i].Length
	}
	says := summary{p.Length, p.Bound, p.MovesBefore, p.MovesAfter}
	busiest, err := replayTokens(ctx, x, p.Returns, lengths, programs, says, x.distinct().Bound()*x.Bytes, itself)
	if err == nil && !slices.Equal(busiest, p.Busiest) {
		return fmt.Errorf("the plan states that the busiest GPUs move %d bytes inside servers, [step], but they move %d", p.Busiest, busiest)
	}
	return err
}

// VerifySiteTokens is VerifyTokens for a plan of PlanSiteTokens. It checks places, NICs and the
// certificate as VerifySite does.
func VerifySiteTokens(ctx context.Context, s *Site, x *Tokens, p *Plan) error {
	if p.Tokens == nil {
		return errors.New("this is not a plan of tokens")
	}
	v, programs, err := verifyPlaces(ctx, s, p)
	if err != nil {
		return err
	}
	all := slices.Concat(v.gpus...)
	if len(all) != x.Ranks() {
		return fmt.Errorf("the tokens are of %d GPUs, and the site has %d", x.Ranks(), len(all))
	}
	placed := x.on(v.p.Cluster, func(r Rank) Rank { return all[r] })
	lengths := make([]int64, len(p.Stages))
	for i := range p.Stages {
		lengths[i] = p.Stages[i].Length
	}
	says := summary{p.Length, p.Bound, p.MovesBefore, p.MovesAfter}
	busiest, err := replayTokens(ctx, placed, p.Returns, lengths, programs, says, p.Bound, v.home)
	if err != nil {
		return err
	}
	if !slices.Equal(busiest, p.Busiest) || p.Length < p.Bound {
		return fmt.Errorf("the plan states length %d, bound %d and moves %d, but moves %d", p.Length, p.Bound, p.Busiest, busiest)
	}
	t := placed.distinct()
	if p.Returns {
		t = t.Transpose()
	}
	return v.proof(t, p, x.Bytes)
}

// VerifyTokens is the function VerifyTokens for an exchange in binary form.
func (v *View) VerifyTokens(ctx context.Context, x *Tokens) error {
	if v.TokenBytes != x.Bytes || v.Cluster != x.Cluster {
		return fmt.Errorf("the exchange is of %d servers of %d GPUs and tokens of %d bytes, want %d of %d and %d", v.Servers, v.GPUs, v.TokenBytes, x.Servers, x.GPUs, x.Bytes)
	}
	programs, err := v.Programs()
	if err != nil {
		return err
	}
	says := summary{v.Length, v.Bound, v.MovesBefore, v.MovesAfter}
	_, err = replayTokens(ctx, x, v.Returns, v.Lengths, programs, says, x.distinct().Bound()*x.Bytes, itself)
	return err
}

// distinct is the traffic in tokens if each is sent once to the first GPU of each other server
// that needs it.
func (x *Tokens) distinct() *Traffic {
	t := &Traffic{Cluster: x.Cluster, Bytes: make([]int64, x.Ranks()*x.Ranks())}
	for source := range Rank(x.Ranks()) {
		for token := x.first[source]; token < x.first[source+1]; token++ {
			reached := x.server(source)
			begin, end := x.of(token)
			for _, to := range x.needs[begin:end] { // rising
				if j := x.server(to); j != x.server(source) && j != reached {
					t.Bytes[int(source)*x.Ranks()+j*x.GPUs]++
					reached = j
				}
			}
		}
	}
	return t
}

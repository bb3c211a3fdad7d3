package gpu

import (
	"context"
	"fmt"
	"math"
	"math/big"
)

// Price is the price of a byte that a server's NICs on a rail send or receive.
type Price struct {
	Server   int   `json:"server"`
	Rail     int   `json:"rail"`
	Receives bool  `json:"receives"`
	Price    int64 `json:"price"`
}

// split divides the traffic between servers over rails, [rail][source][destination], and
// minimizes the largest load per channel.
//
// A length T is too short if the excess, e = max(0, load − T·channels), cannot be made 0
// everywhere. Σ e² is convex in the shares; moving bytes of a pair of servers from the rail
// with the largest sum of e at both ends to the one with the smallest minimizes it. At the
// minimum, the e are prices of the bytes and prove a lower bound on the length,
// Σ bytes·(least price of a rail) / Σ channels·price.
type split struct {
	ctx      context.Context
	n, rails int
	pairs    []int64
	whole    []int64   // [server][rail] channels
	channels []float64 // the same as real numbers
	x        []float64 // [source][destination][rail] bytes
	out, in  []float64 // [server][rail] bytes
	length   float64   // T
}

const (
	railTolerance = 1e-4 // relative excess that is accepted
	railSweeps    = 400  // sweeps over all pairs for one length
	railLengths   = 12   // lengths tried
)

// mostShares is the most shares of pairs of servers on rails: 512 MiB.
const mostShares = 1 << 26

func newSplit(ctx context.Context, s *Places, pairs []int64, length int64) (*split, error) {
	f := &split{ctx: ctx, n: s.Servers, pairs: pairs, length: float64(length)}
	if f.rails, f.whole = s.perRail(); f.rails > mostShares/f.n/f.n {
		return nil, fmt.Errorf("%d rails of %d servers: want at most %d, numbered from 0", f.rails, f.n, mostShares/f.n/f.n)
	}
	f.channels = make([]float64, len(f.whole))
	for at, c := range f.whole {
		f.channels[at] = float64(c)
	}
	f.x = make([]float64, f.n*f.n*f.rails)
	f.out, f.in = make([]float64, f.n*f.rails), make([]float64, f.n*f.rails)
	for at, v := range pairs {
		i, j := at/f.n, at%f.n
		sum := 0.0
		for r := range f.rails {
			sum += min(f.channels[i*f.rails+r], f.channels[j*f.rails+r])
		}
		if v > 0 && sum == 0 {
			return nil, fmt.Errorf("server %d has %d bytes for server %d, but no rail on which both have a working NIC", i, v, j)
		}
		for r := range f.rails {
			if v > 0 {
				f.shift(at, r, float64(v)*min(f.channels[i*f.rails+r], f.channels[j*f.rails+r])/sum)
			}
		}
	}
	return f, nil
}

// shift adds to a pair's bytes on a rail.
func (f *split) shift(pair, rail int, bytes float64) {
	f.x[pair*f.rails+rail] += bytes
	f.out[pair/f.n*f.rails+rail] += bytes
	f.in[pair%f.n*f.rails+rail] += bytes
}

// over is the excess e of a server on a rail.
func (f *split) over(loads []float64, at int) float64 {
	return max(0, loads[at]-f.length*f.channels[at])
}

// fit reduces Σ e², and returns the largest e per channel.
func (f *split) fit() float64 {
	worst := math.Inf(1)
	for range railSweeps {
		if f.ctx.Err() != nil || worst <= f.length*railTolerance/4 {
			break
		}
		for pair, v := range f.pairs {
			if v > 0 {
				f.level(pair)
			}
		}
		worst = 0
		for at, c := range f.channels {
			if c > 0 {
				worst = max(worst, f.over(f.out, at)/c, f.over(f.in, at)/c)
			}
		}
	}
	return worst
}

// level moves a pair's bytes from the rail with the largest excess to the one with the least.
func (f *split) level(pair int) {
	i, j := pair/f.n*f.rails, pair%f.n*f.rails
	for range f.rails {
		high, low := -1, -1
		most, least := 0.0, math.Inf(1)
		room := 0.0
		for r := range f.rails {
			if f.channels[i+r] == 0 || f.channels[j+r] == 0 {
				continue
			}
			e := f.over(f.out, i+r) + f.over(f.in, j+r)
			free := min(f.length*f.channels[i+r]-f.out[i+r], f.length*f.channels[j+r]-f.in[j+r])
			if e > most && f.x[pair*f.rails+r] > 0 {
				high, most = r, e
			}
			if e < least || e == least && free > room {
				low, least, room = r, e, free
			}
		}
		if high < 0 || low < 0 || high == low || most-least < f.length*railTolerance/100 {
			return
		}
		bytes := min(f.x[pair*f.rails+high], (most-least)/2)
		if least == 0 {
			bytes = min(bytes, max(room, (most-least)/4))
		} else {
			bytes = min(bytes, (most-least)/4)
		}
		f.shift(pair, high, -bytes)
		f.shift(pair, low, bytes)
	}
}

// prices returns the e as integers, and the length that they prove.
func (f *split) prices() ([]Price, int64) {
	most := 0.0
	for at := range f.channels {
		most = max(most, f.over(f.out, at), f.over(f.in, at))
	}
	var list []Price
	for at := range f.channels {
		for _, x := range []struct {
			receives bool
			e        float64
		}{{false, f.over(f.out, at)}, {true, f.over(f.in, at)}} {
			if price := int64(x.e / most * (1 << 30)); most > 0 && price > 0 && f.channels[at] > 0 {
				list = append(list, Price{at / f.rails, at % f.rails, x.receives, price})
			}
		}
	}
	return list, railBound(f.n, f.rails, f.pairs, f.whole, list)
}

// railBound is the length that prices prove: each byte between two servers costs at least the
// price of its cheapest rail, and a plan of length T pays at most T times the channels' prices.
func railBound(n, rails int, pairs, channels []int64, list []Price) int64 {
	out, in := make([]int64, n*rails), make([]int64, n*rails)
	paid := new(big.Int)
	for _, x := range list {
		at := x.Server*rails + x.Rail
		if x.Receives {
			in[at] = x.Price
		} else {
			out[at] = x.Price
		}
		paid.Add(paid, new(big.Int).Mul(big.NewInt(x.Price), big.NewInt(channels[at])))
	}
	if paid.Sign() == 0 {
		return 0
	}
	cost := new(big.Int)
	for at, v := range pairs {
		least := int64(math.MaxInt64)
		i, j := at/n*rails, at%n*rails
		for r := range rails {
			if channels[i+r] > 0 && channels[j+r] > 0 {
				least = min(least, out[i+r]+in[j+r])
			}
		}
		if v > 0 {
			cost.Add(cost, new(big.Int).Mul(big.NewInt(v), big.NewInt(least)))
		}
	}
	cost.Add(cost, paid).Sub(cost, big.NewInt(1)).Div(cost, paid)
	return cost.Int64()
}

// divide returns the shares, the proven length, and the prices that prove it, or nil if that
// is the given bound.
func (f *split) divide(bound int64) (shares [][]int64, proved int64, proof []Price) {
	for range railLengths {
		if f.fit() <= f.length*railTolerance {
			break
		}
		list, least := f.prices()
		if least > bound {
			bound, proof = least, list
		}
		// Exceed the bound a little: removing the last excess would take too long.
		f.length = max(float64(bound), f.length*(1+railTolerance/4))
	}
	return f.round(), bound, proof
}

// round rounds the shares down to whole bytes, and gives the remainder, byte by byte, to the
// rail with the most room.
func (f *split) round() [][]int64 {
	shares := make([][]int64, f.rails)
	for r := range shares {
		shares[r] = make([]int64, f.n*f.n)
	}
	out, in := make([]int64, len(f.out)), make([]int64, len(f.in))
	rest := make([]int64, len(f.pairs))
	for pair, v := range f.pairs {
		rest[pair] = v
		for r := range f.rails {
			bytes := min(rest[pair], int64(f.x[pair*f.rails+r]))
			shares[r][pair] = bytes
			rest[pair] -= bytes
			out[pair/f.n*f.rails+r] += bytes
			in[pair%f.n*f.rails+r] += bytes
		}
	}
	for pair, left := range rest {
		i, j := pair/f.n*f.rails, pair%f.n*f.rails
		for range left {
			best, least := -1, math.Inf(1)
			for r := range f.rails {
				if f.channels[i+r] == 0 || f.channels[j+r] == 0 {
					continue
				}
				if full := max(float64(out[i+r]+1)/f.channels[i+r], float64(in[j+r]+1)/f.channels[j+r]); full < least {
					best, least = r, full
				}
			}
			shares[best][pair]++
			out[i+best]++
			in[j+best]++
		}
	}
	return shares
}

// perRail returns the number of rails, and the number of channels of each server on each.
func (p *Places) perRail() (rails int, channels []int64) {
	for _, x := range p.Place {
		rails = max(rails, x.Rail+1)
	}
	channels = make([]int64, p.Servers*rails)
	for _, x := range p.Place {
		if x.NIC >= 0 {
			channels[x.Server*rails+x.Rail]++
		}
	}
	return rails, channels
}

package gpu

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// VerifySite is Verify for the plan of a site whose GPUs send each other bytes,
// [source][destination]. It checks every place against the site, that the NICs of every transfer
// work and reach each other, and the certificate against the bytes and the length.
func VerifySite(ctx context.Context, s *Site, bytes []int64, p *Plan) error {
	v, programs, err := verifyPlaces(ctx, s, p)
	if err != nil {
		return err
	}
	t, err := v.traffic(bytes)
	if err != nil {
		return err
	}
	lengths := make([]int64, len(p.Stages))
	length := int64(0)
	for i := range p.Stages {
		lengths[i] = p.Stages[i].Length
		length += lengths[i]
	}
	busiest, err := carryOut(ctx, t, lengths, programs, v.home)
	if err != nil {
		return err
	}
	if length != p.Length || !slices.Equal(busiest, p.Busiest) {
		return fmt.Errorf("the plan states length %d and moves %d, but has %d and %d", p.Length, p.Busiest, length, busiest)
	}
	if length < p.Bound {
		return fmt.Errorf("the plan has length %d, and its bound is %d", length, p.Bound)
	}
	return v.proof(t, p, 1)
}

// verifyPlaces checks the places of a plan, and that the NICs of every transfer work and reach each
// other. It returns the programs of the places.
func verifyPlaces(ctx context.Context, s *Site, p *Plan) (*siteVerifier, []Program, error) {
	v := &siteVerifier{s: s, p: p.Site}
	if v.p == nil || p.Certificate == nil {
		return nil, nil, fmt.Errorf("the plan has no site or no certificate")
	}
	if err := v.places(); err != nil {
		return nil, nil, err
	}
	programs, err := p.Programs(ctx)
	if err != nil {
		return nil, nil, err
	}
	for r := range programs {
		for _, x := range programs[r].Send {
			if err := v.reach(Rank(r), x.Peer); err != nil {
				return nil, nil, err
			}
		}
	}
	return v, programs, nil
}

// proof checks the certificate of a plan of a traffic of places in units of some bytes.
func (v *siteVerifier) proof(t *Traffic, p *Plan, unit int64) error {
	if len(p.Certificate.Prices) > 0 {
		return v.prices(t, p.Certificate.Prices, p.Bound/unit)
	}
	return v.certificate(t, p, unit)
}

type siteVerifier struct {
	s    *Site
	p    *Places
	gpus [][]Rank // [server][GPU] its first place
}

func (v *siteVerifier) home(r Rank) Rank {
	if x := v.p.Place[r]; x.GPU >= 0 {
		return v.gpus[x.Server][x.GPU]
	}
	return r
}

// places checks the places against the site: every GPU has one, no NIC has more channels than
// its speed has units, and none is of a dead GPU.
func (v *siteVerifier) places() error {
	if len(v.p.Place) != v.p.Ranks() || v.p.Servers != len(v.s.Servers) || v.p.Unit < 1 {
		return fmt.Errorf("%d places of unit %d are not %d servers with %d each", len(v.p.Place), v.p.Unit, len(v.s.Servers), v.p.GPUs)
	}
	used := map[[2]int]int64{}
	for i := range v.s.Servers {
		x := &v.s.Servers[i]
		gpus := make([]Rank, x.GPUs)
		for g := range gpus {
			gpus[g] = -1
		}
		for r := i * v.p.GPUs; r < (i+1)*v.p.GPUs; r++ {
			place := v.p.Place[r]
			if place.Server != i || place.GPU < -1 || place.GPU >= x.GPUs || place.NIC >= len(x.NICs) || place.GPU < 0 && place.NIC >= 0 {
				return fmt.Errorf("place %d of server %d is %+v", r, i, place)
			}
			if place.GPU >= 0 && gpus[place.GPU] < 0 {
				gpus[place.GPU] = Rank(r)
			}
			if place.NIC < 0 {
				continue
			}
			nic := x.NICs[place.NIC]
			used[[2]int{i, place.NIC}] += v.p.Unit
			if nic.GPU != place.GPU || slices.Contains(x.DeadGPUs, place.GPU) || used[[2]int{i, place.NIC}] > nic.Speed || v.s.Rails && nic.Rail != place.Rail {
				return fmt.Errorf("place %d of server %d, %+v, exceeds NIC %d, %+v", r, i, place, place.NIC, nic)
			}
		}
		if slices.Contains(gpus, -1) {
			return fmt.Errorf("server %d: GPU %d has no place", i, slices.Index(gpus, -1))
		}
		v.gpus = append(v.gpus, gpus)
	}
	return nil
}

// traffic puts the GPUs' bytes at their first places.
func (v *siteVerifier) traffic(bytes []int64) (*Traffic, error) {
	all := slices.Concat(v.gpus...)
	if len(bytes) != len(all)*len(all) {
		return nil, fmt.Errorf("%d entries are not a matrix of %d GPUs", len(bytes), len(all))
	}
	t := &Traffic{Cluster: v.p.Cluster, Bytes: make([]int64, v.p.Ranks()*v.p.Ranks())}
	for at, x := range bytes {
		t.Bytes[int(all[at/len(all)])*v.p.Ranks()+int(all[at%len(all)])] = x
	}
	return t, t.check()
}

// reach checks that one place's NIC may send to another's.
func (v *siteVerifier) reach(from, to Rank) error {
	if from < 0 || to < 0 || int(from) >= len(v.p.Place) || int(to) >= len(v.p.Place) {
		return fmt.Errorf("place %d sends to place %d, which does not exist", from, to)
	}
	x, y := v.p.Place[from], v.p.Place[to]
	if x.NIC < 0 || y.NIC < 0 {
		return fmt.Errorf("place %d sends to place %d, and one of them has no NIC", from, to)
	}
	if a, b := v.s.Servers[x.Server].NICs[x.NIC].Rail, v.s.Servers[y.Server].NICs[y.NIC].Rail; v.s.Rails && a != b {
		return fmt.Errorf("place %d sends to place %d, from rail %d to rail %d", from, to, a, b)
	}
	return nil
}

// certificate checks the proof that no plan can be shorter by the bytes and channels that the
// certificate names.
func (v *siteVerifier) certificate(t *Traffic, p *Plan, unit int64) error {
	c := *p.Certificate
	if c.Server < 0 || c.Server >= len(v.s.Servers) {
		return fmt.Errorf("the certificate is of server %d", c.Server)
	}
	sum, channels := int64(0), int64(0)
	for at, x := range t.Bytes {
		from, to := at/t.Ranks()/t.GPUs, at%t.Ranks()/t.GPUs
		if from != to && (c.Receives && to == c.Server || !c.Receives && from == c.Server) {
			sum += x
		}
	}
	x := &v.s.Servers[c.Server]
	for _, nic := range x.NICs {
		if !slices.Contains(x.DeadGPUs, nic.GPU) {
			channels += nic.Speed / v.p.Unit
		}
	}
	if sum*unit != c.Bytes || sum > 0 && (channels != c.Channels || (sum+channels-1)/channels*unit != p.Bound) || sum == 0 && p.Bound != 0 {
		return fmt.Errorf("the certificate %+v does not prove a bound of %d: there are %d bytes and %d channels", c, p.Bound, sum*unit, channels)
	}
	return nil
}

// prices checks the proof that no plan can be shorter by the prices of the certificate: each byte
// pays the prices of both ends on its rail, and in a plan of length T all NICs together earn at
// most T times their channels' prices.
func (v *siteVerifier) prices(t *Traffic, prices []Price, bound int64) error {
	type end struct {
		server, rail int
		receives     bool
	}
	price, channels := map[end]int64{}, map[end]int64{}
	rails := map[int]bool{}
	for i := range v.s.Servers {
		x := &v.s.Servers[i]
		for _, nic := range x.NICs {
			if count := nic.Speed / v.p.Unit; count > 0 && !slices.Contains(x.DeadGPUs, nic.GPU) {
				channels[end{i, nic.Rail, false}] += count
				channels[end{i, nic.Rail, true}] += count
				rails[nic.Rail] = true
			}
		}
	}
	for _, x := range prices {
		at := end{x.Server, x.Rail, x.Receives}
		if x.Price <= 0 || price[at] != 0 {
			return fmt.Errorf("the certificate has the price %+v, below 1 or twice", x)
		}
		price[at] = x.Price
	}
	earned, cost := new(big.Int), new(big.Int)
	for at, x := range price {
		earned.Add(earned, new(big.Int).Mul(big.NewInt(x), big.NewInt(channels[at])))
	}
	for at, bytes := range t.Bytes {
		i, j := at/t.Ranks()/t.GPUs, at%t.Ranks()/t.GPUs
		if i == j || bytes == 0 {
			continue
		}
		least := int64(math.MaxInt64)
		for rail := range rails {
			out, in := end{i, rail, false}, end{j, rail, true}
			if channels[out] > 0 && channels[in] > 0 {
				least = min(least, price[out]+price[in])
			}
		}
		cost.Add(cost, new(big.Int).Mul(big.NewInt(bytes), big.NewInt(least)))
	}
	// The bound is proven if a length of one less would earn less than the cost.
	if new(big.Int).Mul(earned, big.NewInt(bound-1)).Cmp(cost) >= 0 {
		return fmt.Errorf("the prices of the certificate do not prove a bound of %d", bound)
	}
	return nil
}

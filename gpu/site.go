package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Site is a cluster whose servers may differ: GPUs and NICs may be missing or dead, NICs may be
// slower than others, and GPUs may have several NICs.
type Site struct {
	Servers []Server `json:"servers"`
	// Rails means that NICs reach only those of their own rail in other servers.
	Rails bool `json:"rails,omitempty"`
	// Lanes are those of the fat tree that joins the NICs, or nil if they do not matter.
	Lanes *Lanes `json:"-"`
}

// Lanes are the lanes of a fat tree. In a stage no more NICs of a leaf should send, or receive, than
// it has lanes that are up.
type Lanes struct {
	Count int
	Down  [][]int // [leaf] lanes that are down there
}

// common is how many lanes are up at two leaves.
func (x *Lanes) common(a, b int) int {
	up := x.Count - len(x.Down[a])
	for _, lane := range x.Down[b] {
		if !slices.Contains(x.Down[a], lane) {
			up--
		}
	}
	return up
}

// Server is a server of a site.
type Server struct {
	GPUs     int   `json:"gpus"`
	DeadGPUs []int `json:"dead_gpus,omitempty"` // they have no traffic, and their NICs cannot be used
	NICs     []NIC `json:"nics"`
}

// NIC is a network interface of a server.
type NIC struct {
	GPU   int   `json:"gpu"`            // whose memory holds its buffers
	Speed int64 `json:"speed"`          // in any unit, the same for all; 0 if it is dead
	Rail  int   `json:"rail,omitempty"` // with Site.Rails
	Leaf  int   `json:"-"`              // with Site.Lanes
}

// Uniform returns a site of identical servers with a NIC of speed 1 for each GPU, on the rail
// of its number.
func (c Cluster) Uniform() *Site {
	s := &Site{Servers: make([]Server, c.Servers)}
	for i := range s.Servers {
		s.Servers[i].GPUs = c.GPUs
		for l := range c.GPUs {
			s.Servers[i].NICs = append(s.Servers[i].NICs, NIC{GPU: l, Speed: 1, Rail: l})
		}
	}
	return s
}

// Without returns a site without its failed parts: see Fail. If s is nil, it is the site of a
// cluster, with or without rails. The result is nil if s is nil, nothing has failed, and NICs
// reach all others.
func Without(s *Site, c Cluster, rails bool, nics, gpus []string) (*Site, error) {
	switch failed := len(nics)+len(gpus) > 0; {
	case s == nil && (failed || rails):
		s = c.Uniform()
		s.Rails = rails
	case !failed:
		return s, nil
	}
	return s, s.Fail(nics, gpus)
}

// Fail marks parts of a site as failed. A NIC is SERVER:NIC, or SERVER:NIC:PERCENT of its speed
// if it is slower; a GPU is SERVER:GPU. Speeds are then in hundredths of the unit.
func (s *Site) Fail(nics, gpus []string) error {
	if err := s.check(); err != nil {
		return err
	}
	percent := make([][]int64, len(s.Servers)) // [server][NIC]
	for i := range s.Servers {
		percent[i] = slices.Repeat([]int64{100}, len(s.Servers[i].NICs))
	}
	for _, text := range nics {
		x, err := numbers(text, 2, 3)
		if err != nil {
			return fmt.Errorf("NIC %q: %w: want SERVER:NIC if it is dead, SERVER:NIC:PERCENT if it is slower", text, err)
		}
		if x[0] >= len(s.Servers) || x[1] >= len(percent[x[0]]) {
			return fmt.Errorf("NIC %q does not exist: the %d servers and their NICs are numbered from 0", text, len(s.Servers))
		}
		speed := 0
		if len(x) == 3 {
			speed = x[2]
		}
		if speed > 100 {
			return fmt.Errorf("NIC %q: want 0 to 100 percent", text)
		}
		percent[x[0]][x[1]] = int64(speed)
	}
	for i := range s.Servers {
		for k := range s.Servers[i].NICs {
			s.Servers[i].NICs[k].Speed *= percent[i][k]
		}
	}
	for _, text := range gpus {
		x, err := numbers(text, 2, 2)
		if err != nil {
			return fmt.Errorf("GPU %q: %w: want SERVER:GPU", text, err)
		}
		if x[0] >= len(s.Servers) || x[1] >= s.Servers[x[0]].GPUs {
			return fmt.Errorf("GPU %q does not exist: the %d servers and their GPUs are numbered from 0", text, len(s.Servers))
		}
		s.Servers[x[0]].DeadGPUs = append(s.Servers[x[0]].DeadGPUs, x[1])
	}
	return nil
}

// numbers parses numbers separated by colons.
func numbers(text string, least, most int) ([]int, error) {
	parts := strings.Split(text, ":")
	if len(parts) < least || len(parts) > most {
		return nil, fmt.Errorf("%d numbers", len(parts))
	}
	list := make([]int, len(parts))
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", part)
		}
		list[i] = int(v)
	}
	return list, nil
}

// GPUs is the number of GPUs of the site, including dead ones.
func (s *Site) GPUs() (sum int) {
	for i := range s.Servers {
		sum += s.Servers[i].GPUs
	}
	return sum
}

// Speed is the speed of the fastest NIC.
func (s *Site) Speed() (most int64) {
	for i := range s.Servers {
		for _, x := range s.Servers[i].NICs {
			most = max(most, x.Speed)
		}
	}
	return most
}

// finest is the number of channels of the fastest NIC that gives every two servers that NICs can
// join a channel each on a common rail.
func (s *Site) finest() int64 {
	fastest := make([]map[int]int64, len(s.Servers)) // [server] speed of the fastest NIC of a live GPU, by rail
	for i := range s.Servers {
		fastest[i] = map[int]int64{}
		for _, x := range s.Servers[i].NICs {
			rail := 0
			if s.Rails {
				rail = x.Rail
			}
			if !slices.Contains(s.Servers[i].DeadGPUs, x.GPU) {
				fastest[i][rail] = max(fastest[i][rail], x.Speed)
			}
		}
	}
	slowest := s.Speed()
	for i, a := range fastest {
		for _, b := range fastest[:i] {
			best := int64(0)
			for rail, speed := range a {
				best = max(best, min(speed, b[rail]))
			}
			if best > 0 {
				slowest = min(slowest, best)
			}
		}
	}
	return over(s.Speed(), max(1, slowest))
}

// exact reports whether the speeds of all NICs are multiples of a channel's speed.
func (s *Site) exact(unit int64) bool {
	for i := range s.Servers {
		for _, x := range s.Servers[i].NICs {
			if x.Speed%unit != 0 {
				return false
			}
		}
	}
	return true
}

func (s *Site) check() error {
	if len(s.Servers) == 0 {
		return fmt.Errorf("a site without servers: want at least one")
	}
	for i := range s.Servers {
		x := &s.Servers[i]
		if x.GPUs < 1 || x.GPUs > MaxRanks {
			return fmt.Errorf("server %d has %d GPUs: want 1 to %d", i, x.GPUs, MaxRanks)
		}
		for _, g := range x.DeadGPUs {
			if g < 0 || g >= x.GPUs {
				return fmt.Errorf("server %d: dead GPU %d of %d", i, g, x.GPUs)
			}
		}
		for k, nic := range x.NICs {
			if nic.GPU < 0 || nic.GPU >= x.GPUs || nic.Speed < 0 || nic.Speed > 1e14 || nic.Rail < 0 || nic.Rail >= MaxRanks {
				return fmt.Errorf("server %d: NIC %d is of GPU %d, with speed %d on rail %d: want one of %d GPUs, a speed of 0 to 1e14, and a rail of 0 to %d", i, k, nic.GPU, nic.Speed, nic.Rail, x.GPUs, MaxRanks-1)
			}
			if s.Lanes != nil && (nic.Leaf < 0 || nic.Leaf >= len(s.Lanes.Down)) {
				return fmt.Errorf("server %d: NIC %d is on leaf %d: want 0 to %d", i, k, nic.Leaf, len(s.Lanes.Down)-1)
			}
		}
	}
	return nil
}

// Place is a part of a site that acts as a rank of a uniform cluster: a GPU, a channel of a
// NIC, or both.
type Place struct {
	Server int `json:"server"`
	GPU    int `json:"gpu"`            // whose memory holds its buffers; −1 if the place is unused
	NIC    int `json:"nic"`            // or −1
	Home   int `json:"home"`           // the GPU's first place, which has its input and output
	Rail   int `json:"rail,omitempty"` // of the NIC
	Leaf   int `json:"-"`              // of the NIC
}

// Places represents a site as a uniform cluster of places. A NIC has as many channels as its
// speed has units; each sends to one other at a time.
type Places struct {
	Cluster
	Rails bool
	Unit  int64 // speed of a channel
	Speed int64 // of the fastest NIC
	Lanes *Lanes
	Place []Place // [rank]
	first []int   // [GPU of the site] its first place
}

// Places divides the NICs of a site into channels: the fastest NIC into parts channels,
// slower ones into fewer. The remainder of a NIC's speed is not used.
func (s *Site) Places(parts int64) (*Places, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if parts > MaxRanks {
		return nil, fmt.Errorf("a NIC is so slow that the fastest one would have %d channels: want at most %d", parts, MaxRanks)
	}
	p := &Places{Rails: s.Rails, Lanes: s.Lanes, Unit: max(1, s.Speed()/max(1, parts)), Speed: max(1, s.Speed())}
	var servers [][]Place
	for i := range s.Servers {
		servers = append(servers, s.Servers[i].places(i, p.Unit))
		p.GPUs = max(p.GPUs, len(servers[i]))
	}
	p.Servers = len(servers)
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("channels of speed %d: %w", p.Unit, err)
	}
	for i, list := range servers {
		for _, x := range list {
			if x.Home += i * p.GPUs; x.Home == len(p.Place) {
				p.first = append(p.first, x.Home)
			}
			p.Place = append(p.Place, x)
		}
		for len(p.Place) < (i+1)*p.GPUs {
			p.Place = append(p.Place, Place{Server: i, GPU: -1, NIC: -1, Home: len(p.Place)})
		}
	}
	return p, nil
}

// places returns the places of a server by GPU, with homes relative to its first place.
func (x *Server) places(server int, unit int64) []Place {
	var list []Place
	for g := range x.GPUs {
		home := len(list)
		if !slices.Contains(x.DeadGPUs, g) {
			for k, nic := range x.NICs {
				for range nic.Speed / unit {
					if nic.GPU == g {
						list = append(list, Place{server, g, k, home, nic.Rail, nic.Leaf})
					}
				}
			}
		}
		if len(list) == home {
			list = append(list, Place{Server: server, GPU: g, NIC: -1, Home: home})
		}
	}
	return list
}

// home is the rank with the input and output of a rank's GPU: the rank itself if all servers are
// alike, and p is nil.
func (p *Places) home(r Rank) Rank {
	if p == nil {
		return r
	}
	return Rank(p.Place[r].Home)
}

// works reports whether a rank has a working NIC.
func (p *Places) works(r int) bool { return p == nil || p.Place[r].NIC >= 0 }

// rail is the rail of a rank's NIC, or 0 if NICs reach all others.
func (p *Places) rail(r int) int {
	if p == nil || !p.Rails {
		return 0
	}
	return p.Place[r].Rail
}

// leaf is the leaf of some NICs, or −1 if they have several, or lanes do not matter.
func (p *Places) leaf(nics []Rank) int {
	if p == nil || p.Lanes == nil {
		return -1
	}
	leaf := p.Place[nics[0]].Leaf
	for _, r := range nics {
		if p.Place[r].Leaf != leaf {
			return -1
		}
	}
	return leaf
}

// Traffic turns the bytes that the GPUs of a site send each other, [source][destination],
// into traffic of its places. Dead GPUs must have none.
func (s *Site) Traffic(p *Places, bytes []int64) (*Traffic, error) {
	n := len(p.first)
	if len(bytes) != n*n {
		return nil, fmt.Errorf("%d entries are not a matrix of the site's %d GPUs", len(bytes), n)
	}
	t, err := NewTraffic(p.Cluster)
	if err != nil {
		return nil, err
	}
	t.Site = p
	for at, v := range bytes {
		for _, g := range []int{at / n, at % n} {
			if x := p.Place[p.first[g]]; v > 0 && slices.Contains(s.Servers[x.Server].DeadGPUs, x.GPU) {
				return nil, fmt.Errorf("GPU %d, number %d of server %d, is dead and has traffic: %d bytes from GPU %d to GPU %d", g, x.GPU, x.Server, v, at/n, at%n)
			}
		}
		t.Bytes[p.first[at/n]*t.Ranks()+p.first[at%n]] = v
	}
	return t, t.check()
}

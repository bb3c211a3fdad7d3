// Package fast plans exchanges as Y. Lei et al. describe in "FAST: An Efficient
// Scheduler for All-to-All GPU Communication" (NSDI 2026), for comparison with package
// gpu. It is written from the paper and is not the authors' program.
//
// A server's data for another server is balanced over its GPUs first: GPUs with more than the
// average give to those with less (Sec. 4.1). Each GPU then sends to the GPU of the same number
// (merged peer transfers). The matrix of servers, padded until all rows and columns are equal,
// is decomposed by Birkhoff's theorem, a matching from scratch for each stage (Sec. 4.2). The
// data received in a stage is handed out during the next one, and data that stays inside
// servers is sent during the first (Sec. 4.3, Fig. 11).
package fast

import (
	"slices"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lab/baseline"
)

// Plan is an exchange as FAST plans it, with the bytes that the busiest GPUs send or receive
// inside their servers.
type Plan struct {
	Lengths  []int64 // of the stages, bytes a NIC
	Balance  int64   // before the first stage
	Restores []int64 // [stage] during the stage after it
	Local    int64   // during the first stage
}

// New plans a traffic. Without balance, GPUs keep their data, and the GPUs with the most data
// determine the length of the stages.
func New(t *gpu.Traffic, balance bool) *Plan {
	f := &fast{t: t, left: slices.Clone(t.Bytes), loads: make([]int64, 2*t.Ranks())}
	p := &Plan{}
	share := f.shares(balance)
	p.Balance = f.most()
	stages := baseline.Padded(t.Servers, share)
	for s, length := range stages.Weights {
		f.restore(stages.Match[s*t.Servers:][:t.Servers], length)
		p.Lengths, p.Restores = append(p.Lengths, length), append(p.Restores, f.most())
	}
	for at, v := range t.Bytes {
		if source, destination := at/t.Ranks(), at%t.Ranks(); source/t.GPUs == destination/t.GPUs {
			f.move(source, destination, v)
		}
	}
	p.Local = f.most()
	return p
}

// Seconds is the duration of the plan by the model of package gpu.
func (p *Plan) Seconds(m gpu.Model) float64 {
	latency := m.Latency.Seconds()
	moves := func(bytes int64) float64 {
		if bytes == 0 {
			return 0
		}
		return float64(bytes)/m.B1 + latency
	}
	if len(p.Lengths) == 0 {
		return moves(p.Local)
	}
	total, beside := moves(p.Balance), moves(p.Local)
	for s, length := range p.Lengths {
		total += max(float64(length)/m.B2+latency, beside)
		beside = moves(p.Restores[s])
	}
	return total + beside
}

// fast is the state of a plan in the making.
type fast struct {
	t     *gpu.Traffic
	left  []int64 // [GPU that has it][GPU that it is for] bytes to other servers
	loads []int64 // [GPU] sent and received inside servers in the step at hand
}

func (f *fast) move(from, to int, bytes int64) {
	if from != to {
		f.loads[2*from] += bytes
		f.loads[2*to+1] += bytes
	}
}

// most returns the load of the busiest GPU in the step, and begins the next step.
func (f *fast) most() int64 {
	most := slices.Max(f.loads)
	clear(f.loads)
	return most
}

// row is the data of GPU g for the GPUs of a server.
func (f *fast) row(g, server int) []int64 {
	return f.left[g*f.t.Ranks()+server*f.t.GPUs:][:f.t.GPUs]
}

func sum(list []int64) (sum int64) {
	for _, v := range list {
		sum += v
	}
	return sum
}

// shares is the number of bytes that each NIC of a server sends to another server.
func (f *fast) shares(balance bool) []int64 {
	n, m := f.t.Servers, f.t.GPUs
	share := make([]int64, n*n)
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			total, most := int64(0), int64(0)
			for l := range m {
				v := sum(f.row(i*m+l, j))
				total, most = total+v, max(most, v)
			}
			share[i*n+j] = most
			if balance {
				share[i*n+j] = (total + int64(m) - 1) / int64(m)
				f.balance(i, j, share[i*n+j])
			}
		}
	}
	return share
}

// balance moves data from the GPUs of server i that have more than a share for server j to
// those that have less.
func (f *fast) balance(i, j int, share int64) {
	m := f.t.GPUs
	to := 0
	for l := range m {
		from := f.row(i*m+l, j)
		excess := sum(from) - share
		for excess > 0 {
			room := share - sum(f.row(i*m+to, j))
			if room <= 0 {
				to++
				continue
			}
			for k := range from {
				v := min(excess, room, from[k])
				from[k] -= v
				f.row(i*m+to, j)[k] += v
				f.move(i*m+l, i*m+to, v)
				excess, room = excess-v, room-v
			}
		}
	}
}

// restore carries out a stage and hands out the data received.
func (f *fast) restore(match []int32, length int64) {
	m := f.t.GPUs
	for i, j := range match {
		if i == int(j) {
			continue
		}
		for l := range m {
			left := length
			row := f.row(i*m+l, int(j))
			for k := range row {
				v := min(left, row[k])
				row[k] -= v
				left -= v
				f.move(int(j)*m+l, int(j)*m+k, v)
			}
		}
	}
}

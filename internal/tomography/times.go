package tomography

import (
	"fmt"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// farthest is how far a time may be from zero, in nanoseconds: the difference of two is a
// number, and exact as a float64.
const farthest = 1 << 52

// SentBy pairs the times that servers have noted in an exchange by a plan.
func SentBy(plan *phasetable.View, x *api.ExchangeTimes) ([]Sent, error) {
	if x.Bytes < 1 {
		return nil, fmt.Errorf("bytes: %d: want the size of a transfer", x.Bytes)
	}
	for i, p := range x.Phases {
		if i > 0 && p <= x.Phases[i-1] || int(p) >= plan.Phases() {
			return nil, fmt.Errorf("phases: %d at place %d: want ascending numbers below %d, the phases of the plan", p, i, plan.Phases())
		}
	}
	of := make([]*api.ServerTimes, plan.Servers())
	for i := range x.Servers {
		s := &x.Servers[i]
		n, known := plan.FindGUID(s.GUID)
		switch {
		case !known:
			return nil, fmt.Errorf("servers: the plan has no %s", s.GUID)
		case of[n] != nil:
			return nil, fmt.Errorf("servers: %s occurs twice", s.GUID)
		case len(s.Sent) != len(x.Phases) || len(s.Received) != len(x.Phases):
			return nil, fmt.Errorf("servers: %s has %d times sent and %d received: want one for each of %d phases", s.GUID, len(s.Sent), len(s.Received), len(x.Phases))
		}
		for _, list := range [][]int64{s.Sent, s.Received} {
			for _, t := range list {
				if t > farthest || t < -farthest {
					return nil, fmt.Errorf("servers: %s has the time %d: want at most 2^52 ns", s.GUID, t)
				}
			}
		}
		of[n] = s
	}
	var out []Sent
	for i, p := range x.Phases {
		for n, s := range of {
			to := plan.At(n, int(p))
			if s == nil || s.Sent[i] == 0 || to.SendTo == phasetable.Idle || to.SendTo == n || of[to.SendTo] == nil || of[to.SendTo].Received[i] == 0 {
				continue
			}
			out = append(out, Sent{int32(i), s.GUID, of[to.SendTo].GUID, to.DLID, x.Bytes, of[to.SendTo].Received[i] - s.Sent[i]})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("servers: no transfer of the plan has both its times")
	}
	return out, nil
}

// Measure finds the slow parts of a fabric by transfers on its tables; see Links.Find.
func Measure(f *topology.Fabric, tables *lft.Tables, sent []Sent, oneClock bool) (*api.Measured, error) {
	links := Of(f)
	transfers, err := links.Transfers(tables, sent)
	if err != nil {
		return nil, err
	}
	return links.Find(transfers, oneClock)
}

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// pulled is the state in which an exchange runs whose cable is pulled in the middle.
const pulled = "a cable pulled"

// lostAfter is for how long a connection of UCX waits for an acknowledgement before it
// sends again: UCX_RC_TIMEOUT, 1 s, as InfiniBand has it, 4.096 µs times a power of two. It
// is real time, whatever the links' speed.
const lostAfter = 4096 * time.Nanosecond << 18

// midRun brings the fabric into a state in the middle of an exchange, which must go on to
// the end, by the plan that it began with.
func (b *bed) midRun(ctx context.Context, tables string, by routes, s state) (m measurement, err error) {
	exchanges, err := by.exchanges(ctx)
	if err != nil {
		return m, err
	}
	exchanges = slices.DeleteFunc(exchanges, func(x exchange) bool { return x.loose })
	m = measurement{tables: tables, state: pulled, exchange: exchanges[len(exchanges)-1]}
	m.exchange.bound = 0 // the fabric changes
	fabric, before, err := b.state(ctx)
	if err != nil {
		return m, err
	}
	hosts := b.o.n * b.o.n
	bytes := max(b.o.bytes, int(b.o.rate)/(hosts-1)) // it takes a second or more
	cmd, out, err := b.job(ctx, m.exchange, bytes, 1)
	if err != nil {
		return m, err
	}
	if err := errors.Join(b.data.Clear(), cmd.Start()); err != nil {
		return m, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	share := 0.0
	for share < 0.5 {
		select {
		case err := <-ended:
			_, err = judge(cmd, out.String(), err)
			return m, errors.Join(err, errors.New("it ended too early"))
		case <-time.After(20 * time.Millisecond):
		}
		arrived, err := b.arrived(ctx)
		if err != nil {
			return m, err
		}
		share = arrived/(float64(hosts*(hosts-1)*bytes)/efficiency) - 1./16 // of the exchange before it
	}
	if err := b.change(ctx, state{}, s); err != nil {
		return m, err
	}
	if err := errors.Join(b.finish(ctx, &m, cmd, out, <-ended), b.settled(ctx, by, s)); err != nil {
		return m, err
	}
	damaged, after, err := b.state(ctx)
	if err != nil {
		return m, err
	}
	transfer := float64(bytes) / efficiency / float64(b.o.rate)
	healthy, err := simulate(fabric, before, m.exchange.plan)
	if err != nil {
		return m, err
	}
	less, err := simulate(damaged, after, m.exchange.plan)
	if err != nil {
		return m, err
	}
	m.predicted = between(healthy, less, share, lostAfter.Seconds()/transfer)
	return m, nil
}

// arrived is how many bytes the hosts have received, with headers.
func (b *bed) arrived(ctx context.Context) (sum float64, _ error) {
	c, err := b.data.Count(ctx)
	if err != nil {
		return 0, err
	}
	for ref, p := range c.Ports {
		if b.fabric.Nodes[ref.Node].Kind != topology.Switch {
			sum += float64(p.RcvData)
		}
	}
	return sum, nil
}

// between is the share of the links' throughput of an exchange during which a cable is
// pulled. Its phases take as long as on the tables before until a share of it is done, and
// then as long as on those after. Data on the cable is sent again when the timer of its
// connection has expired, after so many transfers' time.
func between(before, after *sim.Result, share, lost float64) float64 {
	until := share * float64(before.Duration())
	sum := 0.0
	for p, m := range before.PerPhaseMax {
		if sum >= until {
			m = after.PerPhaseMax[p]
		}
		sum += float64(m)
	}
	return float64(before.Servers-1) / (sum + lost)
}

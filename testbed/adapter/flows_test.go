package adapter

import (
	"fmt"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// sent is the number of bytes that the hosts' own links have carried, by host.
func (w *world) sent(hosts ...int) (bytes []float64) {
	w.Helper()
	c, err := w.Count(w.Context())
	w.must(err)
	for _, h := range hosts {
		ref := topology.PortRef{Node: w.fabric.Find(fabgen.HostGUID + ib.GUID(2*h)), Port: 1}
		bytes = append(bytes, float64(c.Ports[ref].XmitData))
	}
	return bytes
}

func hostName(i int) string { return fmt.Sprintf("Hca%04d", i) }

// TestShares has two flows send to one host, and to two, and compares the bytes of each: half
// of one link, whatever the number of their queue pairs.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		name  string
		to    []int     // of hosts 0, 1, …
		pairs []int     // queue pairs of each
		share []float64 // of the link's bytes
		wait  bool      // for half of the time and more
	}{
		{"two hosts", []int{4, 4}, []int{1, 1}, []float64{0.5, 0.5}, true},
		{"many queue pairs and one", []int{4, 4}, []int{4, 1}, []float64{0.5, 0.5}, true},
		{"apart", []int{4, 5}, []int{1, 1}, []float64{0.5, 0.5}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := up(t, fabgen.Spec{Spines: 4, Leaves: 2, LMC: 2}, 2_000_000)
			peers := map[int]*puppet{}
			var flows []*puppet
			for h, to := range c.to {
				a := w.puppet(hostName(h))
				if peers[to] == nil {
					peers[to] = w.puppet(hostName(to))
				}
				flows = append(flows, a)
				for k := range c.pairs[h] {
					x, y := a.pair(256, "own"), peers[to].pair(1, "own")
					join(a, peers[to], x, y, 0, lasting)
					for id := range 128 / c.pairs[h] {
						a.does("write %d %d 0 %d %d %d 0", x.i, 1000*k+id, memory, peers[to].address, peers[to].key)
					}
				}
			}
			carried := func(least float64) []float64 {
				for range withinRetryTime {
					if bytes := w.sent(0, 1); min(bytes[0], bytes[1]) >= least {
						return bytes
					}
					time.Sleep(time.Millisecond)
				}
				t.Fatalf("of two hosts that send, one does not come to %.0f bytes: %.0f", least, w.sent(0, 1))
				return nil
			}
			w.must(w.Clear())
			carried(4096) // both have begun; alone, each would take 4 s
			w.must(w.Clear())
			bytes := carried(128 * 4096)
			count, err := w.Count(t.Context())
			w.must(err)
			sum := bytes[0] + bytes[1]
			for h, want := range c.share {
				if got := bytes[h] / sum; got < want-0.02 || got > want+0.02 {
					t.Errorf("host %d has %.3f of the bytes sent, want %.3f", h, got, want)
				}
			}
			var waited time.Duration
			for ref, p := range count.Ports {
				if w.fabric.Nodes[ref.Node].Kind == topology.Switch {
					waited = max(waited, p.XmitWait)
				}
			}
			if most := count.Elapsed / 2; c.wait != (waited > most) {
				t.Errorf("packets waited %v of %v for a link", waited, count.Elapsed)
			}
			for _, p := range flows {
				_ = p.p.Process.Kill()
			}
		})
	}
}

// TestBothWays has two hosts read from each other over one connection. The second one sends
// its request while it answers the first: it does not wait until the first has everything.
func TestBothWays(t *testing.T) {
	w := up(t, small, 50_000)
	const length = 60_000 // 1.2 s
	a, b := w.puppet("Hca0000"), w.puppet("Hca0003")
	x, y := a.pair(8, "own"), b.pair(8, "own")
	join(a, b, x, y, 0, lasting)
	w.must(w.Clear())
	a.does("read %d 1 0 %d %d %d 0", x.i, length, b.address, b.key)
	for w.sent(3)[0] < 2*4096 {
		time.Sleep(time.Millisecond)
	}
	b.does("read %d 1 0 %d %d %d 0", y.i, length, a.address, a.key)
	a.expect(success)
	if sent := w.sent(0)[0]; sent < 2*4096 {
		t.Errorf("when the first has read %d bytes, the second one has had %.0f", length, sent)
	}
	b.expect(success)
}

// TestGap has packets lost in the middle of the answer to a read: it goes on from there,
// and is not sent again for each packet that comes after the gap.
func TestGap(t *testing.T) {
	w := up(t, small, 50_000)
	const length = 60_000 // 1.2 s
	a, b := w.puppet("Hca0000"), w.puppet("Hca0003")
	x, y := a.pair(8, "own"), b.pair(8, "own")
	join(a, b, x, y, 0, lasting)
	pulled := w.fabric.Clone()
	leaf := &pulled.Nodes[pulled.Nodes[pulled.Find(fabgen.HostGUID+2*3)].Ports[1].Peer]
	leaf.Ports[w.tables.Port(w.tables.Find(leaf.GUID), ib.LID(x.lid))].State = topology.Down
	arrived := func(bytes float64) {
		for w.sent(3)[0] < bytes {
			time.Sleep(time.Millisecond)
		}
	}
	w.must(w.Clear())
	a.does("read %d 1 0 %d %d %d 0", x.i, length, b.address, b.key)
	arrived(2 * 4096)
	w.must(w.SetLinks(pulled))
	arrived(4 * 4096)
	w.must(w.SetLinks(w.fabric))
	a.expect(success)
	if sent := w.sent(3)[0]; sent < length+4096 || sent > 2*length+4*4096 {
		t.Errorf("of %d bytes %.0f were sent", length, sent)
	}
	a.does("read %d 2 0 8 %d %d 0", x.i, b.address, b.key) // after all that was on its way
	a.expect(success)
}

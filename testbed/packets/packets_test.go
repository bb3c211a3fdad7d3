package packets

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

const block = 64 << 10

// site is a fat tree with forsd's tables and plan.
type site struct {
	tree   *topology.FatTree
	tables *lft.Tables
	plan   []Message
}

func newSite(t testing.TB, tree *topology.FatTree) site {
	t.Helper()
	made, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.New(made.Table(1))
	if err != nil {
		t.Fatal(err)
	}
	return site{tree, made.Tables, Of(sim.RowsOf(view), block)}
}

// damaged is FT(2;6,6) with dead cables.
func damaged(t testing.TB, dead ...[2]int) site {
	t.Helper()
	return newSite(t, fabgen.Damaged(t, fabgen.Spec{Spines: 6, Leaves: 6, LMC: 3}, dead...))
}

func (s *site) run(t testing.TB, cfg Config, p Pacing, messages []Message) Result {
	t.Helper()
	r, err := Run(s.tree.Fabric, s.tables, cfg, p, messages)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exact is hardware without latency, so that only the links take time.
func exact() Config {
	cfg := HDR
	cfg.Latency = 0
	return cfg
}

// TestPlanWithoutConflict: by a plan without conflicts, phase after phase takes the time of a
// block, on any switches.
func TestPlanWithoutConflict(t *testing.T) {
	for _, dead := range [][][2]int{nil, {{0, 2}}, {{0, 0}, {3, 5}, {3, 1}}} {
		s := damaged(t, dead...)
		phases := map[int32]bool{}
		for _, m := range s.plan {
			phases[m.Phase] = true
		}
		want := int64(len(phases)) * block * exact().Byte
		for _, queues := range []Queues{VOQ, FIFO} {
			for _, pace := range []Pace{Barrier, Clock} {
				cfg := exact()
				cfg.Queues = queues
				if r := s.run(t, cfg, Pacing{Pace: pace}, s.plan); r.Time != want {
					t.Errorf("%d dead cables, %s, %s: %d ps, want %d", len(dead), queues, pace, r.Time, want)
				}
			}
		}
	}
}

// TestAgreesWithLinkLoads: with a barrier after each phase and queues per output, a phase of a
// linear shift takes about as long as its busiest link carries messages, as sim counts them.
func TestAgreesWithLinkLoads(t *testing.T) {
	s := damaged(t, [2]int{0, 2}, [2]int{1, 2}, [2]int{4, 0})
	rows := sim.LinearShift(s.tree)
	loads, err := sim.Run(s.tree.Fabric, s.tables, rows)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, n := range loads.PerPhaseMax {
		want += n
	}
	r := s.run(t, exact(), Pacing{Pace: Barrier}, Of(rows, block))
	if got := float64(r.Time) / float64(block*exact().Byte); math.Abs(got-float64(want)) > .02*float64(want) {
		t.Errorf("the shift takes %.1f phases, by the loads of links %d", got, want)
	}
}

// oneSwitch is a switch with n hosts.
func oneSwitch(t testing.TB, n int) site {
	t.Helper()
	tree := fabgen.Fitted(t, fabgen.Generate(fabgen.Spec{Spines: 1, Leaves: 2, Hosts: []int{n, 1}}))
	tables, err := lft.Build(tree)
	if err != nil {
		t.Fatal(err)
	}
	return site{tree: tree, tables: tables}
}

// host is the i-th host of a site's first leaf.
func (s *site) host(i int) *topology.Host { return &s.tree.Hosts[i] }

func (s *site) message(phase, src, dst, bytes int) Message {
	return Message{int32(phase), s.host(src).GUID, s.host(dst).GUID, s.host(dst).LID, bytes}
}

// TestHeadOfLine compares queues with the published limit: inputs with one queue each, whose
// packets go to random outputs, pass 2−√2 = 0.586 of the rate of the outputs (Karol,
// Hluchyj and Morgan, 1987), somewhat more on a switch of few ports; a queue for each output
// passes nearly all.
func TestHeadOfLine(t *testing.T) {
	const hosts, packets = 32, 3000
	s := oneSwitch(t, hosts)
	rng := rand.New(rand.NewPCG(7, 7))
	var messages []Message
	for h := range hosts {
		for p := range packets {
			if d := rng.IntN(hosts - 1); d < h {
				messages = append(messages, s.message(p, h, d, HDR.Packet))
			} else {
				messages = append(messages, s.message(p, h, d+1, HDR.Packet))
			}
		}
	}
	for _, c := range []struct {
		queues    Queues
		speedup   int
		low, high float64
	}{{FIFO, 1, .57, .62}, {FIFO, 2, .7, .92}, {VOQ, 1, .9, 1}} {
		cfg := exact()
		cfg.Queues, cfg.Speedup = c.queues, c.speedup
		r := s.run(t, cfg, Pacing{Pace: Window, Window: 1 + cfg.Buffer}, messages)
		if r.Share < c.low || r.Share > c.high {
			t.Errorf("%s, speed-up %d: %.3f of the outputs' rate, want %.2f to %.2f", c.queues, c.speedup, r.Share, c.low, c.high)
		}
	}
}

// TestShares: messages that meet on a link share it, and do not affect others if each output
// has a queue.
func TestShares(t *testing.T) {
	s := oneSwitch(t, 5)
	meeting := []Message{s.message(0, 0, 4, block), s.message(0, 1, 4, block), s.message(0, 2, 4, block)}
	if r := s.run(t, exact(), Pacing{}, meeting); r.Time != 3*block*HDR.Byte || r.Share != 1 {
		t.Errorf("three messages to one host take %d ps, share %g", r.Time, r.Share)
	}
	apart := []Message{s.message(0, 0, 1, block), s.message(0, 1, 2, block), s.message(0, 2, 0, block)}
	if r := s.run(t, exact(), Pacing{}, apart); r.Time != block*HDR.Byte {
		t.Errorf("three messages apart take %d ps", r.Time)
	}
}

// TestSlowHost: a host at half speed takes twice as long, and its exchange is ideal by that.
func TestSlowHost(t *testing.T) {
	s := oneSwitch(t, 3)
	cfg := exact()
	cfg.Slow = map[topology.PortRef]float64{s.host(1).PortRef: 2, s.host(1).At: 2}
	r := s.run(t, cfg, Pacing{}, []Message{s.message(0, 0, 1, block), s.message(0, 2, 0, block)})
	if r.Time != 2*block*HDR.Byte || r.Share != 1 {
		t.Errorf("%d ps, share %g", r.Time, r.Share)
	}
}

// TestAdaptive: packets that each take the least loaded path avoid a collision on the tables,
// and avoid it less with old queue lengths.
func TestAdaptive(t *testing.T) {
	s := damaged(t)
	// All hosts of leaf 0 send to one place of the other leaves each, by the same spine.
	var collision []Message
	for l := 1; l < 6; l++ {
		for i := range s.tree.Hosts {
			if h := &s.tree.Hosts[i]; h.Leaf == l && (h.Alpha+h.First)%6 == 2 {
				src := s.host(l)
				collision = append(collision, Message{0, src.GUID, h.GUID, h.LID, block})
			}
		}
	}
	static := s.run(t, exact(), Pacing{}, collision)
	cfg := exact()
	cfg.Adaptive = true
	adaptive := s.run(t, cfg, Pacing{}, collision)
	cfg.Delay = 50_000_000
	delayed := s.run(t, cfg, Pacing{}, collision)
	if static.Share > .25 || adaptive.Share < .9 || delayed.Share > adaptive.Share {
		t.Errorf("by the tables %.3f, adaptive %.3f, by old news %.3f", static.Share, adaptive.Share, delayed.Share)
	}
}

// TestPaces: known properties of the pacings on a tree with a dead cable. A clock with a guard
// keeps phases apart if packets block each other. No exchange is faster than its links allow.
func TestPaces(t *testing.T) {
	s := damaged(t, [2]int{0, 2})
	phase := int64(block) * HDR.Byte
	share := func(queues Queues, p Pacing) float64 {
		cfg := HDR
		cfg.Queues = queues
		p.News = HDR.Latency
		r := s.run(t, cfg, p, s.plan)
		if r.Share > 35./36+1e-9 {
			t.Errorf("%s %+v: %.3f, more than the leaf's cables allow", queues, p, r.Share)
		}
		return r.Share
	}
	clock := share(FIFO, Pacing{Pace: Clock, Guard: .1, Jitter: phase / 10})
	atOnce := share(FIFO, Pacing{Pace: AtOnce, Jitter: phase / 10})
	byLinks := share(FIFO, Pacing{Pace: ByLinks, Jitter: phase / 10})
	if clock < atOnce || clock < byLinks {
		t.Errorf("with head-of-line blocking: by the clock %.3f, at once %.3f, by links %.3f", clock, atOnce, byLinks)
	}
	if voq := share(VOQ, Pacing{Pace: AtOnce, Jitter: phase / 10}); voq < atOnce {
		t.Errorf("at once: %.3f with queues per output, %.3f with one", voq, atOnce)
	}
	if apart, together := share(VOQ, Pacing{Pace: Pairwise}), share(VOQ, Pacing{Pace: Rendezvous}); together <= apart {
		t.Errorf("with a rendezvous %.3f, with receives posted ahead %.3f", together, apart)
	}
	for _, p := range []Pacing{{Pace: Pairwise}, {Pace: Window, Window: 2}, {Pace: ByLinks}} {
		if got := share(VOQ, p); got < .3 {
			t.Errorf("%s: %.3f", p.Pace, got)
		}
	}
}

// TestSameSeed: the same input gives the same time, another seed another one.
func TestSameSeed(t *testing.T) {
	s := damaged(t, [2]int{0, 2})
	p := Pacing{Pace: Window, Window: 3, Jitter: 1_000_000, News: 500_000}
	cfg := HDR
	first := s.run(t, cfg, p, s.plan)
	if again := s.run(t, cfg, p, s.plan); !reflect.DeepEqual(again, first) {
		t.Errorf("%+v, then %+v", first, again)
	}
	cfg.Seed = 1
	if other := s.run(t, cfg, p, s.plan); reflect.DeepEqual(other, first) {
		t.Errorf("seeds 0 and 1 both give %+v", first)
	}
}

// TestRefusals: messages that cannot arrive are errors.
func TestRefusals(t *testing.T) {
	s := damaged(t)
	good := s.plan[0]
	for want, change := range map[string]func(m *Message){
		"has no entry for LID": func(m *Message) { m.DLID = 40000 },
		"not to":               func(m *Message) { m.DLID = s.plan[1].DLID },
		"not two host ports":   func(m *Message) { m.Dst = 1 },
	} {
		m := good
		change(&m)
		if _, err := Run(s.tree.Fabric, s.tables, HDR, Pacing{}, []Message{m}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Run(s.tree.Fabric, s.tables, HDR, Pacing{Pace: Window}, nil); err == nil {
		t.Error("a window of 0 messages is accepted")
	}
}

// TestSpeedup: a queue whose first packet is being sent passes its next one on to another
// output if the switch has a speed-up of two, and waits otherwise.
func TestSpeedup(t *testing.T) {
	s := oneSwitch(t, 4)
	// The first packet of host 1 waits for one of host 0, and the next ones go elsewhere.
	messages := []Message{s.message(0, 0, 2, HDR.Packet), s.message(0, 1, 2, HDR.Packet), s.message(1, 1, 3, 3*HDR.Packet)}
	packet := int64(HDR.Packet) * HDR.Byte
	cfg := exact()
	cfg.Queues = FIFO
	var took [3]int64
	for speedup := 1; speedup <= 2; speedup++ {
		cfg.Speedup = speedup
		took[speedup] = s.run(t, cfg, Pacing{}, messages).Time
	}
	if took[1] != 5*packet || took[2] != 4*packet {
		t.Errorf("without a speed-up it takes %d ps, with two at once %d; want %d and %d", took[1], took[2], 5*packet, 4*packet)
	}
}

// TestClock360 runs base LIDs by the clock on 360 hosts with a dead cable, where packets block
// each other and a switch has a speed-up of two: a guard of the size of the jitter keeps phases
// apart. It takes minutes.
func TestClock360(t *testing.T) {
	if os.Getenv("FORS_LONG") == "" {
		t.Skip("takes minutes: FORS_LONG=1")
	}
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, [2]int{6, 18})
	made, err := planner.Make(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.New(made.Base.Table(0))
	if err != nil {
		t.Fatal(err)
	}
	s := site{tree, made.Tables, Of(sim.RowsOf(view), 256<<10)}
	cfg := HDR
	cfg.Queues, cfg.Speedup, cfg.Seed = FIFO, 2, 1
	for _, c := range []struct{ guard, jitter, want float64 }{{.04, 0, .95}, {.1, .1, .9}} {
		p := Pacing{Pace: Clock, Guard: c.guard, Jitter: int64(c.jitter * float64(256<<10*cfg.Byte))}
		r := s.run(t, cfg, p, s.plan)
		t.Logf("guard %g, jitter %g: %.3f", c.guard, c.jitter, r.Share)
		if r.Share < c.want {
			t.Errorf("guard %g, jitter %g: %.3f, want %.2f", c.guard, c.jitter, r.Share, c.want)
		}
	}
}

func BenchmarkAtOnce(b *testing.B) {
	s := damaged(b, [2]int{0, 2})
	b.ReportAllocs()
	for b.Loop() {
		s.run(b, HDR, Pacing{Pace: AtOnce}, s.plan)
	}
}

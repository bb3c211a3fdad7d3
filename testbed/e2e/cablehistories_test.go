package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/pdr"
)

// TestCableHistories makes the cables of sites count errors at random, with seconds for the
// hours of the published rules: ramps, bursts, noise, links that go down, resets by another
// program, and counters at their greatest value. After each round forsd must have isolated the
// same cables as an independent form of the rules does from the counters that forsd read.
// FORS_LONG has 20 sites.
func TestCableHistories(t *testing.T) {
	t.Parallel()
	for seed := range many(2, 20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := newCableHistory(t, uint64(seed))
			h.live(20 * time.Second)
			h.judge()
		})
	}
}

// cableHistory is a site whose cables count at random.
type cableHistory struct {
	*test
	rng    *rand.Rand
	limits pdr.Limits
	cables []*counting
}

// counting is the counting of a cable, at both ends.
type counting struct {
	api.Cable
	kind string
	ends [2]map[string]uint64
}

// The counters that histories set.
const (
	symbolErrors = "PortCounters.SymbolErrorCounter"
	rcvErrors    = "PortCounters.PortRcvErrors"
	linkDowned   = "PortCounters.LinkDownedCounter"
)

func newCableHistory(t *testing.T, seed uint64) *cableHistory {
	t.Helper()
	h := &cableHistory{rng: rand.New(rand.NewPCG(seed, 19))}
	h.limits = pdr.Published(1+h.rng.IntN(2), 2+h.rng.IntN(3))
	l := &h.limits
	l.Short, l.ShortRate, l.Long, l.LongRate, l.Test = 3*time.Second, 3e-11, 7*time.Second, 2e-11, 3*time.Second
	o := Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, Hosts: []int{2}}), LMC: 2}
	o.Config = steady + fmt.Sprintf("log: {level: debug}\ncables: {mode: isolate, every: 300ms, max_cost: 1000, per_leaf: %d, in_all: %d, short: %v, short_ber: %g, long: %v, long_ber: %g, "+
		"test: %v, probation: 100ms, flaps: 1000}\n",
		l.PerLeaf, l.InAll, l.Short, l.ShortRate, l.Long, l.LongRate, l.Test)
	h.test, _ = up(t, 5*time.Minute, o)
	h.read()
	h.read() // this round began when all switches had LIDs: nothing is counted before a whole one
	all, err := h.Client.Cables(h.ctx)
	h.ok(err)
	kinds := []string{"good", "good", "noise", "ramp", "burst", "bounces", "one end", "full"}
	for _, c := range all.Cables {
		h.cables = append(h.cables, &counting{c, kinds[h.rng.IntN(len(kinds))], [2]map[string]uint64{{}, {}}})
	}
	return h
}

// live makes the cables count for a time.
func (h *cableHistory) live(d time.Duration) {
	for began, step := time.Now(), 0; time.Since(began) < d; step++ {
		for _, c := range h.cables {
			h.advance(c, step)
		}
		time.Sleep(150 * time.Millisecond)
	}
	h.read()
	h.test.read()
}

// advance makes a cable count.
func (h *cableHistory) advance(c *counting, step int) {
	end := h.rng.IntN(2)
	add := func(end int, field string, n uint64) { h.set(c, end, field, min(c.ends[end][field]+n, 65535)) }
	often := func(n int) bool { return h.rng.IntN(n) == 0 }
	switch c.kind {
	case "noise":
		if often(25) {
			add(end, symbolErrors, 1)
		}
	case "ramp":
		if often(4) {
			add(end, symbolErrors, uint64(step/20))
		}
	case "burst":
		if often(40) {
			add(end, symbolErrors, uint64(h.rng.IntN(50)))
			add(end, rcvErrors, uint64(h.rng.IntN(3)))
		}
	case "bounces":
		if often(40) {
			add(0, linkDowned, 1)
			add(1, linkDowned, 1)
		}
	case "one end":
		if often(10) {
			add(0, linkDowned, 1)
		}
	case "full":
		if often(60) {
			h.set(c, end, symbolErrors, 65535)
		}
	}
	if often(80) {
		for field := range c.ends[end] {
			h.set(c, end, field, uint64(h.rng.IntN(3)))
		}
	}
}

// set sets a counter.
func (h *cableHistory) set(c *counting, end int, field string, n uint64) {
	at := []api.CableEnd{c.Leaf, c.Spine}[end]
	if field == linkDowned {
		n = min(n, 254)
	}
	c.ends[end][field] = n
	h.count(at.Name, at.Port, field, n)
}

// line is a line of forsd's log about cables.
type line struct {
	Msg      string
	At       int64
	Readings []cablehealth.Reading
	Number   int
	Decision string
	Text     string
}

// judge compares forsd's decisions with those of the rules from the counters that it has read.
func (h *cableHistory) judge() {
	h.Helper()
	log, err := os.Open(filepath.Join(h.Dir(), "forsd.log"))
	h.ok(err)
	defer log.Close()
	ref := pdr.New(h.limits)
	isolated := map[string]bool{} // by the texts of decisions
	var last []cablehealth.Reading
	rounds, compared, most, weighing, late := 0, 0, 0, 0, false
	compare := func() {
		if late = late || weighing > 0; rounds == 0 || late {
			return // the machine is too slow to know the cost before the next round
		}
		compared++
		var want []string
		for _, c := range ref.Isolated() {
			want = append(want, h.label(c))
		}
		got := []string{}
		for label := range isolated {
			got = append(got, label)
		}
		slices.Sort(want)
		slices.Sort(got)
		if most = max(most, len(got)); !slices.Equal(got, want) {
			h.Fatalf("round %d: isolated %q, and by the published rules %q", rounds, got, want)
		}
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var x line
		if json.Unmarshal(lines.Bytes(), &x) != nil {
			continue
		}
		switch x.Msg {
		case "cables whose costs are looked at":
			weighing = x.Number
		case "cable":
			label, _, _ := strings.Cut(x.Text, " is ")
			label, _, _ = strings.Cut(label, " comes ")
			switch x.Decision {
			case "isolated":
				isolated[label] = true
			case "probation":
				delete(isolated, label)
			}
		case "counters":
			compare()
			if rounds == 0 && slices.ContainsFunc(x.Readings, func(r cablehealth.Reading) bool { return r.Ends[0] == nil || r.Ends[1] == nil }) {
				continue // the switches have no LIDs yet
			}
			rounds++
			last = x.Readings
			round, gbps := pdr.Round{At: time.Unix(0, x.At), Read: map[cablehealth.Cable][2]ib.Counters{}}, 0.0
			var cables []cablehealth.Cable
			for _, r := range x.Readings {
				if r.Ends[0] == nil || r.Ends[1] == nil {
					h.Fatalf("round %d: %v was not read", rounds, r.Cable)
				}
				round.Read[r.Cable], gbps = [2]ib.Counters{*r.Ends[0], *r.Ends[1]}, r.Gbps
				cables = append(cables, r.Cable)
			}
			ref.Step(round, cables, gbps, func(cablehealth.Cable) bool { return false })
		}
	}
	h.ok(lines.Err())
	compare()
	h.asSet(last)
	var kinds []string
	for _, c := range h.cables {
		kinds = append(kinds, c.kind)
	}
	h.Logf("%d of %d rounds compared, at most %d of %d isolated at a time; %d per leaf, %d in all; %v", compared, rounds, most, len(h.cables), h.limits.PerLeaf, h.limits.InAll, kinds)
}

// label is how decisions name a cable.
func (h *cableHistory) label(id cablehealth.Cable) string {
	for _, c := range h.cables {
		if c.Leaf.GUID == id.Leaf.GUID && c.Leaf.Port == id.Leaf.Port {
			return fmt.Sprintf("%s port %d – %s port %d", c.Leaf.Name, c.Leaf.Port, c.Spine.Name, c.Spine.Port)
		}
	}
	return id.String()
}

// asSet fails if the last readings differ from the values set.
func (h *cableHistory) asSet(last []cablehealth.Reading) {
	h.Helper()
	for _, r := range last {
		for _, c := range h.cables {
			if c.Leaf.GUID != r.Cable.Leaf.GUID || c.Leaf.Port != r.Cable.Leaf.Port {
				continue
			}
			for i := range 2 {
				if got, want := r.Ends[i], c.ends[i]; got.Symbols != want[symbolErrors] || got.Received != want[rcvErrors] || got.Downed != want[linkDowned] {
					h.Errorf("end %d of %s: %+v was read, and set %v", i, h.label(r.Cable), *got, want)
				}
			}
		}
	}
}

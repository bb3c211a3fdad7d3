package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// The states of the fabric that are compared.
const (
	healthy  = "healthy"
	cableOut = "cable"
	spineOut = "cable and spine"
	burstOut = "9 cables at once"
)

// step is a change of the fabric: how forsd sees it when it is done, and the resulting
// state.
type step struct {
	title string
	name  string // the same in short
	do    func(context.Context, *ibsim.Sim) error
	seen  func(*api.Topology) error
	state string
}

// burstSize is how many cables are pulled at once.
const burstSize = 9

// makeSteps lists what is done to the fabric. Leaf007's port 31 is its cable to
// Spine010, lane 10; the cables of the burst are drawn from a fixed seed.
func makeSteps() []step {
	cables, ports, names := burst(rand.New(rand.NewPCG(9, 2021)))
	together := func(state string) func(*api.Topology) error {
		return func(t *api.Topology) error {
			for _, c := range cables {
				if err := e2e.Cable(c.Leaf, c.Lane, state)(t); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []step{
		{"pull one cable: Leaf007 port 31", "a cable pulled", func(ctx context.Context, s *ibsim.Sim) error { return s.Unlink(ctx, "Leaf007", 31) },
			e2e.Cable(7, 10, "missing"), cableOut},
		{"pull a spine: Spine012", "a spine pulled", func(ctx context.Context, s *ibsim.Sim) error { return s.UnlinkNode(ctx, "Spine012") },
			e2e.SpinePresent(12, false), spineOut},
		{"put the spine back", "the spine back", func(ctx context.Context, s *ibsim.Sim) error { return s.RelinkNode(ctx, "Spine012") },
			e2e.SpinePresent(12, true), cableOut},
		{"put the cable back", "the cable back", func(ctx context.Context, s *ibsim.Sim) error { return s.Relink(ctx, "Leaf007", 31) },
			e2e.Cable(7, 10, "full"), healthy},
		{"pull nine random cables at once: " + names, "nine cables pulled", func(ctx context.Context, s *ibsim.Sim) error { return s.UnlinkAll(ctx, ports) },
			together("missing"), burstOut},
		{"put the nine back at once", "the nine back", func(ctx context.Context, s *ibsim.Sim) error { return s.RelinkAll(ctx, ports) },
			together("full"), healthy},
	}
}

// burst draws different cables of FT(2;20,18), as (leaf, lane), as ports of the
// leaves, and in words. Lane k is at port 21+k of every leaf.
func burst(rng *rand.Rand) (cables []controller.Lane, ports []ibsim.Port, names string) {
	for len(cables) < burstSize {
		c := controller.Lane{Leaf: rng.IntN(18), Lane: rng.IntN(20)}
		if !slices.Contains(cables, c) {
			cables = append(cables, c)
		}
	}
	slices.SortFunc(cables, func(a, b controller.Lane) int {
		return cmp.Or(cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(a.Lane, b.Lane))
	})
	words := make([]string, len(cables))
	for i, c := range cables {
		ports = append(ports, ibsim.Port{Node: fmt.Sprintf("Leaf%03d", c.Leaf), Port: 21 + c.Lane})
		words[i] = fmt.Sprintf("%s/%d", ports[i].Node, ports[i].Port)
	}
	return cables, ports, strings.Join(words, " ")
}

// cost is the duration of an exchange in one state of the fabric: by min-hop, by forsd, and
// by forsd for programs that send to base LIDs; costs are by state.
type (
	cost  struct{ minhop, forsd, base *sim.Result }
	costs map[string]*cost
)

// states lists those that were reached, in the order of the comparison.
var states = []string{healthy, cableOut, spineOut, burstOut}

// shiftOn simulates the linear shift on the tables that the switches hold.
// Servers are numbered as on the whole fabric.
func shiftOn(ctx context.Context, s *e2e.Site, whole *topology.Fabric) (*sim.Result, error) {
	base, err := topology.NewBaseline(whole)
	if err != nil {
		return nil, err
	}
	sight, err := s.LookBy(ctx, base)
	if err != nil {
		return nil, err
	}
	return sim.Run(sight.Tree.Fabric, sight.Tables, sim.LinearShift(sight.Tree))
}

// show prints what forsd saw and did, and how often.
func show(title string, st *api.Status, count string) {
	fmt.Printf("\n%s\n", title)
	e := st.LastEvent
	for i, what := range e.What {
		if i == 4 {
			fmt.Printf("  saw        … and %d more\n", len(e.What)-i)
			break
		}
		fmt.Printf("  saw        %s\n", what)
	}
	fmt.Printf("  plan       epoch %d: %d phases (bound %d) by engine %s, %d servers\n", st.Epoch, st.Phases, st.LowerBound, st.Engine, st.Servers)
	fmt.Printf("  count      %s\n", count)
	fmt.Printf("  times      %s\n", stations(e))
	fmt.Printf("  checked    on tables read back from %d switches: no link carries two transfers of a phase, every LID is routed\n", st.Leaves+st.Spines)
	for _, w := range st.Warnings {
		fmt.Printf("  warning    %s: %s\n", w.Code, shorten(w.Text, 100))
	}
}

// stations lists the steps after a change in the order of their times: a lost lane has
// its plan published before the tables, one that returned after.
func stations(e *api.LastEvent) string {
	type station struct {
		what string
		ms   float64
	}
	list := []station{{"plan verified", 1e3 * e.VerifiedSeconds}, {"published", 1e3 * e.PublishedSeconds}, {"tables programmed", 1e3 * e.ProgrammedSeconds}, {"read back", 1e3 * e.ReadBackSeconds}}
	slices.SortStableFunc(list, func(a, b station) int { return cmp.Compare(a.ms, b.ms) })
	text := "first sign 0 ms"
	for _, s := range list {
		if s.ms > 0 {
			text += fmt.Sprintf(" → %s %.0f ms", s.what, s.ms)
		}
	}
	return text
}

// times are those after a change at which forsd did its steps.
type times struct{ published, programmed, readBack time.Duration }

func timesOf(st *api.Status, began time.Time) times {
	after := func(ms float64) time.Duration {
		return st.LastEvent.SeenAt.Add(time.Duration(ms * float64(time.Millisecond))).Sub(began)
	}
	return times{st.PublishedAt.Sub(began), after(1e3 * st.LastEvent.ProgrammedSeconds), after(1e3 * st.LastEvent.ReadBackSeconds)}
}

// printTimes compares both ways of working with OpenSM.
func printTimes(steps []step, files, plugin []times) {
	fmt.Println("\nFrom each change in this run to what was done about it, in milliseconds, by OpenSM's files and by the plugin in OpenSM:")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "change\tplan published: files\tplugin\ttables programmed: files\tplugin\tread back: files\tplugin\t")
	for i, st := range steps {
		fmt.Fprint(w, st.name)
		f, p := files[i], plugin[i]
		for _, pair := range [][2]time.Duration{{f.published, p.published}, {f.programmed, p.programmed}, {f.readBack, p.readBack}} {
			fmt.Fprintf(w, "\t%d\t%d", pair[0].Milliseconds(), pair[1].Milliseconds())
		}
		fmt.Fprintln(w, "\t")
	}
	w.Flush()
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// printCosts compares min-hop and forsd.
func printCosts(c costs) {
	fmt.Println("\nThe exchange in this run, on tables read back from the switches (time in phases of one undisturbed transfer):")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fabric\tmin-hop + linear shift\tforsd\tforsd, base LIDs\tthroughput by min-hop\tby forsd\tby forsd, base LIDs\tgain\t")
	for _, state := range states {
		x := c[state]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f %%\t%.1f %%\t%.1f %%\t× %.2f\t\n", state, x.minhop.Duration(), x.forsd.Duration(), x.base.Duration(),
			100*x.minhop.RelativeThroughput, 100*x.forsd.RelativeThroughput, 100*x.base.RelativeThroughput, x.forsd.RelativeThroughput/x.minhop.RelativeThroughput)
	}
	w.Flush()
}

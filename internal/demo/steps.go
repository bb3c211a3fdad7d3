package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"forsd/api"
	"forsd/phasetable"
	"forsd/planner"
	"forsd/sim"
	"forsd/topology"
	"forsd/verify"
)

// cost is what an exchange costs in one state of the fabric, by min-hop and by
// forsd.
type cost struct {
	minhop, forsd *sim.Result
}

// costs are by state, in the order of states.
type costs map[string]*cost

var states = []string{"healthy", "cable", "cable and spine"}

// minhop lets OpenSM route by min-hop through the same states, and undoes them.
func (s *site) minhop(ctx context.Context) (costs, error) {
	if err := s.manage(ctx, "minhop"); err != nil {
		return nil, err
	}
	out := costs{}
	for i, state := range states {
		if i > 0 {
			if err := steps[i-1].do(ctx, s); err != nil {
				return nil, err
			}
		}
		if err := s.opensm.Sweep(ctx); err != nil {
			return nil, err
		}
		tree, err := s.tree()
		if err != nil {
			return nil, err
		}
		tables, err := s.readBack(ctx)
		if err != nil {
			return nil, err
		}
		r, err := sim.Run(tree.Fabric, tables, sim.LinearShift(tree))
		if err != nil {
			return nil, err
		}
		out[state] = &cost{minhop: r}
		fmt.Printf("  %-16s %.2f transfers on the busiest link of a phase on average, relative throughput %.3f\n", state, r.Mean, r.RelativeThroughput)
	}
	for _, st := range steps[len(states)-1:] {
		if err := st.do(ctx, s); err != nil {
			return nil, err
		}
	}
	s.opensm.Stop(ctx)
	return out, nil
}

// walk does one step and shows what became of it.
func (s *site) walk(ctx context.Context, st step, c costs) error {
	began := time.Now()
	if err := st.do(ctx, s); err != nil {
		return err
	}
	_, err := s.await(ctx, func(now *api.Status) bool {
		e := now.LastEvent
		return now.State == "idle" && e != nil && e.SeenAt.After(began) && e.ReadBackMS > 0
	})
	if err != nil {
		return err
	}
	return s.show(ctx, st.title, st.state, c)
}

// show says what forsd saw and did, and checks it on the tables that the
// switches hold.
func (s *site) show(ctx context.Context, title, state string, c costs) error {
	st, err := s.client.Status(ctx)
	if err != nil {
		return err
	}
	table, err := s.client.Table(ctx)
	if err != nil {
		return err
	}
	result, err := s.check(ctx, table)
	if err != nil {
		return err
	}
	c[state].forsd = result
	e := st.LastEvent
	fmt.Printf("\n%s\n", title)
	for i, what := range e.What {
		if i == 4 {
			fmt.Printf("  saw        … and %d more\n", len(e.What)-i)
			break
		}
		fmt.Printf("  saw        %s\n", what)
	}
	fmt.Printf("  plan       epoch %d: %d phases (bound %d) by engine %s, %d servers\n", st.Epoch, st.Phases, st.LowerBound, st.Engine, st.Servers)
	fmt.Printf("  times      %s\n", stations(e))
	fmt.Printf("  checked    plan and tables read back from %d switches: no link carries two transfers of a phase, every LID is routed\n", st.Leaves+st.Spines)
	for _, w := range st.Warnings {
		fmt.Printf("  warning    %s: %s\n", w.Code, shorten(w.Text, 100))
	}
	return nil
}

// stations lists what happened to a change in the order in which it did: a lost
// lane has its plan published before the tables, one that returned after.
func stations(e *api.LastEvent) string {
	type station struct {
		what string
		ms   float64
	}
	list := []station{{"plan verified", e.VerifiedMS}, {"published", e.PublishedMS}, {"tables programmed", e.ProgrammedMS}, {"read back", e.ReadBackMS}}
	slices.SortStableFunc(list, func(a, b station) int { return cmp.Compare(a.ms, b.ms) })
	text := "dump appears 0 ms"
	for _, s := range list {
		if s.ms > 0 {
			text += fmt.Sprintf(" → %s %.0f ms", s.what, s.ms)
		}
	}
	return text
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// check verifies the plan in force on tables read back independently of forsd,
// and simulates it on them.
func (s *site) check(ctx context.Context, table *phasetable.View) (*sim.Result, error) {
	tree, err := s.tree()
	if err != nil {
		return nil, err
	}
	tables, err := s.readBack(ctx)
	if err != nil {
		return nil, err
	}
	if err := verify.Tables(tree, tables); err != nil {
		return nil, fmt.Errorf("tables read back: %w", err)
	}
	index := make(map[topology.GUID]int, len(tree.Servers))
	for i, h := range tree.Servers {
		index[tree.Hosts[h].GUID] = i
	}
	rows := verify.NewRows(len(tree.Servers), table.Phases())
	var transfers []sim.Row
	for n := range table.Servers() {
		src := table.Server(n)
		row := table.Row(n)
		for p := range row.Len() {
			x := row.At(p)
			if x.SendTo == phasetable.Idle {
				continue
			}
			dst := table.Server(x.SendTo)
			if err := rows.Put(tree, p, index[src.GUID], index[dst.GUID], int16(x.Lane), x.DLID); err != nil {
				return nil, err
			}
			transfers = append(transfers, sim.Row{Phase: int32(p), DLID: x.DLID, Src: src.GUID, Dst: dst.GUID})
		}
	}
	if err := verify.Plan(tree, tables, rows, planner.Unreachable(tree)); err != nil {
		return nil, fmt.Errorf("plan on the tables read back: %w", err)
	}
	return sim.Run(tree.Fabric, tables, transfers)
}

// printCosts sets min-hop and forsd side by side.
func printCosts(c costs) {
	fmt.Println("\nThe exchange in this run, on tables read back from the switches (time in phases of one undisturbed transfer):")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fabric\tmin-hop + linear shift\tforsd\tthroughput by min-hop\tby forsd\tgain\t")
	for _, state := range states {
		x := c[state]
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f %%\t%.1f %%\t× %.2f\t\n", state, sum(x.minhop.PerPhaseMax), sum(x.forsd.PerPhaseMax),
			100*x.minhop.RelativeThroughput, 100*x.forsd.RelativeThroughput, x.forsd.RelativeThroughput/x.minhop.RelativeThroughput)
	}
	w.Flush()
}

func sum(xs []int) int {
	total := 0
	for _, x := range xs {
		total += x
	}
	return total
}

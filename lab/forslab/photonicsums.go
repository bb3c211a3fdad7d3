package forslab

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/photonic"
)

// mostCarry is up to how many topologies forslab photonic-sums searches with waiting.
const mostCarry = 64

// hopSums are the hop sums of a number of shifts, and their bounds.
type hopSums struct {
	Topologies int `json:"reconfigurations"`
	Shifts     int `json:"shifts,omitempty"` // of --shifts
	Paper      int `json:"paper"`
	Greedy     int `json:"greedy"`
	Theorem1   int `json:"theorem1"`
	Carry      int `json:"carry,omitempty"` // up to mostCarry topologies
	CarryBound int `json:"carry_bound"`
}

func photonicSumsCommand() *cobra.Command {
	var gpus int
	var shifts []int
	cmd := &cobra.Command{
		Use:   "photonic-sums --gpus N",
		Short: "Print hop sums and bounds for every number of reconfigurations of one switch",
		Long: `Photonic-sums prints, for every number d of reconfigurations of one switch, the hop sum in
units of T: of the first d shifts in the published order, of greedy ones, and where
chunks may wait for the next topology; with the lower bounds of both, and at the end
the worst ratio to theorem 1. --shifts has the sums of shifts of one's own, without
waiting.`,
		Example: `  forslab photonic-sums --gpus 64
  forslab photonic-sums --gpus 8 --shifts 1,3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if gpus < 2 || gpus > photonic.MaxGPUs {
				return fmt.Errorf("--gpus %d: want from 2 to %d", gpus, photonic.MaxGPUs)
			}
			for i, a := range shifts {
				if a < 1 || a >= gpus || i == 0 && !coprime(a, gpus) || slices.Contains(shifts[:i], a) {
					return fmt.Errorf("--shifts %v: want different numbers from 1 to %d, the first without a common factor with %d", shifts, gpus-1, gpus)
				}
			}
			rows, err := sumsOf(cmd.Context(), gpus, shifts)
			if err != nil {
				return err
			}
			return printSums(cmd, gpus, rows)
		},
	}
	cmd.Flags().IntVar(&gpus, "gpus", 0, "GPUs")
	cmd.Flags().IntSliceVar(&shifts, "shifts", nil, "shifts of one's own, in order, the first one a cycle through all GPUs")
	return cmd
}

// coprime reports whether two numbers have no common factor.
func coprime(a, b int) bool {
	for b != 0 {
		a, b = b, a%b
	}
	return a == 1
}

// sumsOf are the hop sums of all numbers of shifts.
func sumsOf(ctx context.Context, n int, shifts []int) ([]hopSums, error) {
	own := papers.PowerSums(n, shifts)
	carry, err := photonic.CarrySums(ctx, n, mostCarry)
	if err != nil {
		return nil, err
	}
	paper := papers.PowerSums(n, papers.PaperShifts(n))
	greedy := papers.PowerSums(n, papers.GreedyShifts(n, n-1))
	rows := make([]hopSums, n-1)
	for i := range rows {
		d := i + 1
		rows[i] = hopSums{Topologies: d, Paper: paper[i], Greedy: greedy[i], Theorem1: papers.Theorem1(n, d), CarryBound: photonic.HopBound(n, 1, d)}
		if i < len(own) {
			rows[i].Shifts = own[i]
		}
		if i < len(carry) {
			rows[i].Carry = carry[i]
		}
	}
	return rows, nil
}

// printSums prints the rows and the worst ratios to theorem 1.
func printSums(cmd *cobra.Command, n int, rows []hopSums) error {
	paper, greedy := 0.0, 0.0
	for _, r := range rows {
		paper = max(paper, float64(r.Paper)/float64(r.Theorem1))
		greedy = max(greedy, float64(r.Greedy)/float64(r.Theorem1))
	}
	return command.Show(cmd, map[string]any{"gpus": n, "sums": rows, "worst_ratio_paper": paper, "worst_ratio_greedy": greedy}, func(w io.Writer) {
		fmt.Fprint(w, "d\tpaper\tgreedy\ttheorem 1\tcarry\tbound with waiting")
		if rows[0].Shifts > 0 {
			fmt.Fprint(w, "\t--shifts")
		}
		fmt.Fprintln(w)
		for _, r := range rows {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%d", r.Topologies, r.Paper, r.Greedy, r.Theorem1, dash(r.Carry), r.CarryBound)
			if rows[0].Shifts > 0 {
				fmt.Fprintf(w, "\t%s", dash(r.Shifts))
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "\nworst ratio to theorem 1\t%.3f by the paper's order, %.3f greedy\n", paper, greedy)
	})
}

// dash is a number, or a dash for none.
func dash(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

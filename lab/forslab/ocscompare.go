package forslab

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/ocs"
)

// comparison is the output of forslab ocs-compare for one number of switches and δ.
type comparison struct {
	Switches   int                    `json:"switches"`
	Delta      float64                `json:"delta"`
	LowerBound float64                `json:"lower_bound"`
	PaperBound float64                `json:"paper_bound"`
	Makespan   map[ocs.Method]float64 `json:"makespan"` // means over the matrices
	Ratio      map[ocs.Method]float64 `json:"ratio"`    // to the paper's bound, mean
}

func ocsCompareCommand() *cobra.Command {
	var demand, workload string
	var racks, flows int
	var switches []int
	var deltas []float64
	seeds := 1
	cmd := &cobra.Command{
		Use:   "ocs-compare [--demand FILE]",
		Short: "Compare the methods on a matrix, or on random ones of a workload",
		Long: `Ocs-compare schedules by every method and prints the makespans, and how many times the
paper's lower bound they are, for each number of switches and each δ: of the matrix of
--demand, or the means over matrices of a workload. All schedules are replayed.`,
		Example: `  forslab ocs-compare --demand D.csv --switches 2,4 --delta 0.01,0.04
  forslab ocs-compare --workload moe --switches 4 --delta 0.001,0.01 --seeds 10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(switches) == 0 || len(deltas) == 0 || seeds < 1 || seeds > mostRandom {
				return fmt.Errorf("want at least one of --switches and --delta, and --seeds from 1 to %d", mostRandom)
			}
			if demand != "" && (cmd.Flags().Changed("workload") || seeds > 1) {
				return errors.New("--demand is given, and --workload or --seeds as well: the matrix is one")
			}
			demands := make([]*ocs.Demand, seeds)
			for i := range demands {
				var err error
				if demand != "" {
					demands[i], err = readDemand(cmd, demand)
				} else {
					demands[i], err = ocs.Workload(workload, racks, flows, uint64(i)+1)
				}
				if err != nil {
					return err
				}
			}
			list, err := compareAll(cmd, demands, switches, deltas)
			if err != nil {
				return err
			}
			return command.Show(cmd, map[string]any{"comparisons": list}, func(w io.Writer) { printComparisons(w, list) })
		},
	}
	cmd.Flags().StringVar(&workload, "workload", "benchmark", "benchmark, gpt or moe")
	cmd.Flags().IntVar(&racks, "racks", 0, "racks (default: the paper's)")
	cmd.Flags().IntVar(&flows, "flows", 0, "flows of a rack (default: the paper's)")
	cmd.Flags().StringVar(&demand, "demand", "", "a matrix (CSV, NPY or JSON) instead of a workload; - is standard input")
	cmd.Flags().IntSliceVar(&switches, "switches", []int{2, 4}, "numbers of switches")
	cmd.Flags().Float64SliceVar(&deltas, "delta", []float64{.01, .04}, "values of δ")
	cmd.Flags().IntVar(&seeds, "seeds", seeds, "matrices of the workload, of seeds 1, 2, …")
	return cmd
}

// readDemand reads a demand matrix from a file, or from standard input if path is -.
func readDemand(cmd *cobra.Command, path string) (*ocs.Demand, error) {
	m, err := matrix.ReadInput(cmd, path, matrix.Options{Square: true, MaxSide: ocs.MaxRacks})
	if err != nil {
		return nil, err
	}
	d, err := ocs.NewDemand(m.Rows, m.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// compareAll compares for every number of switches and every δ, with a bar.
func compareAll(cmd *cobra.Command, demands []*ocs.Demand, switches []int, deltas []float64) (list []comparison, err error) {
	bar := command.Progress(cmd, len(switches)*len(deltas)*len(demands))
	defer func() { _ = bar.Finish() }()
	for _, s := range switches {
		for _, δ := range deltas {
			c, err := compare(cmd, demands, s, δ, func() { _ = bar.Add(1) })
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
	}
	return list, nil
}

// compare schedules demands by all methods and takes means.
func compare(cmd *cobra.Command, demands []*ocs.Demand, s int, δ float64, step func()) (comparison, error) {
	c := comparison{Switches: s, Delta: δ, Makespan: map[ocs.Method]float64{}, Ratio: map[ocs.Method]float64{}}
	share := 1 / float64(len(demands))
	for _, d := range demands {
		for _, m := range append([]ocs.Method{papers.Less}, ocs.Methods...) {
			made, err := papers.Schedule(cmd.Context(), d, ocs.Options{Switches: s, Delta: δ, Method: m})
			if err != nil {
				return c, err
			}
			r, err := ocs.NewReport(d, made, m)
			if err != nil {
				return c, fmt.Errorf("this is a fault of forslab: %w", err)
			}
			c.Makespan[m] += share * r.Makespan
			if r.PaperBound > 0 {
				c.Ratio[m] += share * r.Makespan / r.PaperBound
			}
			if m == ocs.Fast {
				c.LowerBound += share * r.LowerBound
				c.PaperBound += share * r.PaperBound
			}
		}
		step()
	}
	return c, nil
}

func printComparisons(w io.Writer, list []comparison) {
	fmt.Fprintln(w, "switches\tdelta\tbound\tsharper\tbest\tfast\tless\teclipse\tto the bound: best\tfast\tless\teclipse")
	for _, c := range list {
		fmt.Fprintf(w, "%d\t%g\t%.4f\t%.4f", c.Switches, c.Delta, c.PaperBound, c.LowerBound)
		order := []ocs.Method{ocs.Best, ocs.Fast, papers.Less, ocs.Eclipse}
		for _, m := range order {
			fmt.Fprintf(w, "\t%.4f", c.Makespan[m])
		}
		for _, m := range order {
			fmt.Fprintf(w, "\t%.3f", c.Ratio[m])
		}
		fmt.Fprintln(w)
	}
}

func ocsReferenceCommand() *cobra.Command {
	seeds, best := 50, false
	cmd := &cobra.Command{
		Use:   "ocs-reference",
		Short: "Measure the benchmark workload's table of reference again",
		Long: `Ocs-reference schedules random matrices of the benchmark workload, 100 racks of 16 flows,
and prints mean ratios, with their standard errors, beside those that an
implementation of the paper is known to give: Spectra to the lower bound, and the
baseline and Eclipse to Spectra. Eclipse tries ten weights a permutation there; the
last column has it as published, with a search by halves. --best adds the method best,
to the paper's bound and to the sharper one.`,
		Example: `  forslab ocs-reference
  forslab ocs-reference --seeds 200 --best --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seeds < 1 || seeds > mostRandom {
				return fmt.Errorf("--seeds %d: want 1 to %d", seeds, mostRandom)
			}
			others := []ocs.Method{papers.Less, ocs.Eclipse}
			if best {
				others = append(others, ocs.Best)
			}
			bar := command.Progress(cmd, papers.ReferenceSteps(seeds))
			rows, err := papers.Reference(cmd.Context(), seeds, others, func() { _ = bar.Add(1) })
			_ = bar.Finish()
			if err != nil {
				return err
			}
			return command.Show(cmd, map[string]any{"seeds": seeds, "rows": rows}, func(w io.Writer) { printReference(w, best, rows) })
		},
	}
	cmd.Flags().IntVar(&seeds, "seeds", seeds, "random matrices, of seeds 1, 2, …")
	cmd.Flags().BoolVar(&best, "best", false, "measure the method best as well")
	return cmd
}

func printReference(w io.Writer, best bool, rows []papers.ReferenceRow) {
	fmt.Fprint(w, "s\tδ\tSpectra/bound\treference\tbaseline/Spectra\treference\tEclipse/Spectra\treference\tby halves")
	if best {
		fmt.Fprint(w, "\tbest/bound\tbest/sharper bound")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		got, off, want := r.Got, r.Error, r.Want
		fmt.Fprintf(w, "%d\t%g\t%s\t%s\t%s\t%s\t%s\t%s\t%s", r.Switches, r.Delta,
			measured(got.Spectra, off.Spectra), known(want.Spectra, 3), measured(got.Baseline, off.Baseline), known(want.Baseline, 2),
			measured(got.Eclipse, off.Eclipse), known(want.Eclipse, 2), measured(got.Halves, off.Halves))
		if best {
			fmt.Fprintf(w, "\t%s\t%s", measured(got.Best, off.Best), measured(got.BestSharp, off.BestSharp))
		}
		fmt.Fprintln(w)
	}
}

// measured prints a mean and its standard error.
func measured(mean, off float64) string {
	if off == 0 {
		return fmt.Sprintf("%.3f", mean)
	}
	return fmt.Sprintf("%.3f ±%.3f", mean, off)
}

// known prints a number of the reference, or a dash.
func known(x float64, digits int) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, x)
}

package forslab

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
)

// frameSchemes are the schemes of frames, in the order in which they are printed.
var frameSchemes = []struct {
	mode gpu.Mode
	name string
}{{gpu.None, "no balancing"}, {gpu.Paper, "Sec. IV, Eq. 11"}, {gpu.Rails, "Eq. 26"}}

// gpuFramesFlags are the flags of forslab gpu-frames.
type gpuFramesFlags struct {
	papers.Simulation
	model string
	rates []float64
	seeds int
}

// frameRow is the mean frame length for a rate and a scheme.
type frameRow struct {
	Rate      float64  `json:"r0"`
	Mode      gpu.Mode `json:"mode"`
	Mean      float64  `json:"mean_frame"`
	Deviation float64  `json:"deviation"` // of the seeds' means
	Max       int64    `json:"max_frame"`
	Frames    int      `json:"frames"`
}

func gpuFramesCommand() *cobra.Command {
	f := gpuFramesFlags{}
	cmd := &cobra.Command{
		Use:   "gpu-frames --rate R0…",
		Short: "Simulate frames that serve what arrived during the one before (Sec. VI of the paper)",
		Long: `Gpu-frames lets packets arrive at random and plans frame after frame, each of which
serves what arrived during the one before. It prints the mean length of a frame, in
slots of one packet a NIC: without balancing, with the published balancing, and with
frames of the length of Eq. 26, which modes rails and minmove attain. A dash stands
where no frame ends, as beyond saturation.

Model u has the same rate r0 for all pairs of GPUs of different servers, model nu
concentrates what two servers have for each other on their first GPUs.`,
		Example: `  forslab gpu-frames --rate 0.015 --rate 0.035 --rate 0.055
  forslab gpu-frames --model nu --rate 0.03 --seeds 20 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.Servers, "servers", 8, "servers")
	fs.IntVar(&f.GPUs, "gpus-per-server", 2, "GPUs, and NICs, of a server")
	fs.StringVar(&f.model, "model", "u", "u (uniform) or nu (hotspot)")
	fs.Float64SliceVar(&f.rates, "rate", nil, "r0, packets a slot and pair of GPUs; repeatable")
	fs.IntVar(&f.Slots, "slots", 100_000, "slots of a run")
	fs.IntVar(&f.Warmup, "warmup", 10_000, "slots whose frames are left out")
	fs.IntVar(&f.seeds, "seeds", 1, "runs, each with a seed of its own")
	return cmd
}

// run simulates all rates, schemes and seeds.
func (f *gpuFramesFlags) run(cmd *cobra.Command) error {
	switch strings.ToLower(f.model) {
	case "u":
	case "nu":
		f.Hotspot = true
	default:
		return fmt.Errorf("--model %q: want u or nu", f.model)
	}
	if len(f.rates) == 0 {
		return fmt.Errorf("--rate is missing: give r0, packets a slot and pair of GPUs, below %.4f for %d servers of %d GPUs",
			1/float64(max(1, (f.Servers-1)*f.GPUs)), f.Servers, f.GPUs)
	}
	if f.seeds < 1 || f.seeds > 1000 {
		return fmt.Errorf("--seeds %d: want 1 to 1000", f.seeds)
	}
	bar := command.Progress(cmd, len(f.rates)*len(frameSchemes)*f.seeds)
	defer func() { _ = bar.Finish() }()
	var rows []frameRow
	for _, rate := range f.rates {
		for _, scheme := range frameSchemes {
			bar.Describe(fmt.Sprintf("r0 = %v, %s", rate, scheme.name))
			s := f.Simulation
			s.Rate, s.Mode = rate, scheme.mode
			all, err := command.UnlessStopped(cmd.Context(), func() (papers.Summary, error) {
				return s.Repeat(cmd.Context(), f.seeds, func() { _ = bar.Add(1) })
			})
			if err != nil {
				return err
			}
			rows = append(rows, frameRow{rate, scheme.mode, all.Mean, all.Deviation, all.Max, all.Frames})
		}
	}
	_ = bar.Finish()
	return command.Show(cmd, map[string]any{"servers": f.Servers, "gpus_per_server": f.GPUs, "model": strings.ToLower(f.model),
		"slots": f.Slots, "warmup": f.Warmup, "seeds": f.seeds, "frames": rows}, func(w io.Writer) { f.print(w, rows) })
}

// print prints the mean lengths for people, a line for each rate, with a dash if no
// frame has ended.
func (f *gpuFramesFlags) print(w io.Writer, rows []frameRow) {
	fmt.Fprint(w, "r0")
	for _, scheme := range frameSchemes {
		fmt.Fprintf(w, "\t%s", scheme.name)
	}
	fmt.Fprintln(w)
	for row := range slices.Chunk(rows, len(frameSchemes)) {
		fmt.Fprint(w, row[0].Rate)
		for _, x := range row {
			switch {
			case x.Frames == 0:
				fmt.Fprint(w, "\t–")
			case f.seeds > 1:
				fmt.Fprintf(w, "\t%.2f ± %.2f", x.Mean, x.Deviation)
			default:
				fmt.Fprintf(w, "\t%.2f", x.Mean)
			}
		}
		fmt.Fprintln(w)
	}
}

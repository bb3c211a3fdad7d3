package figures

import (
	"math"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forsd/gpu"
	"forsd/internal/chart"
)

// TestFrameLengths simulates the reference's mean frame lengths with fewer seeds and
// slots; "make figures" does with all, and fails where they are not met.
func TestFrameLengths(t *testing.T) {
	seeds, slots := 4, frameSlots/4
	if long() {
		seeds, slots = referenceSeeds, frameSlots
	}
	table := chart.NewTable("model", "r0", "scheme", "seeds", "mean_frame", "deviation", "reference")
	for i := range frameReferences {
		for k := range frameSchemes {
			if err := addReference(t.Context(), table, i, k, seeds, slots); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFramesStillHold simulates some of the rates again.
func TestFramesStillHold(t *testing.T) {
	for i, m := range frameModels {
		now := chart.NewTable()
		for _, rate := range frameRates(m.first, m.last) {
			if rate > .016 && !long() {
				continue
			}
			for _, mode := range frameSchemes {
				if err := addFrames(now, i, rate, mode); err != nil {
					t.Fatal(err)
				}
			}
		}
		was := kept(t, &gpuFrames, m.name)
		if d := cmp.Diff(was[:min(len(was), len(now.Rows)-1)], now.Rows[1:]); d != "" {
			t.Errorf("Model %s (-docs/figures +simulated now):\n%s", m.name, d)
		}
	}
}

// TestStagesStillHold makes the stages of the smaller clusters again.
func TestStagesStillHold(t *testing.T) {
	for _, servers := range stageServers {
		if servers > 8 && !long() {
			continue
		}
		now := chart.NewTable()
		if err := addStages(t.Context(), now, servers); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(kept(t, &gpuStages, strconv.Itoa(servers*stageGPUs)), now.Rows[1:]); d != "" {
			t.Errorf("%d servers (-docs/figures +made now):\n%s", servers, d)
		}
	}
}

// TestPaperStatements holds the numbers of docs/figures to what the paper says of
// its Figs. 2 and 3.
func TestPaperStatements(t *testing.T) {
	means := map[string]map[string]map[gpu.Mode]float64{} // [model][r0][scheme]
	for _, m := range frameModels {
		means[m.name] = map[string]map[gpu.Mode]float64{}
		for _, row := range kept(t, &gpuFrames, m.name) {
			if means[m.name][row[1]] == nil {
				means[m.name][row[1]] = map[gpu.Mode]float64{}
			}
			mean, err := strconv.ParseFloat(row[4], 64)
			if err != nil {
				t.Fatal(err)
			}
			means[m.name][row[1]][gpu.Mode(row[2])] = mean
		}
	}
	for model, rates := range means {
		for rate, mean := range rates {
			if mean[gpu.None] == 0 {
				continue // no frame has ended
			}
			if mean[gpu.Paper] > mean[gpu.None] || mean[gpu.Rails] > mean[gpu.Paper] {
				t.Errorf("Model %s, r0 = %s: frames of %v without balancing, %v with it, %v by Eq. 26: want them to fall", model, rate, mean[gpu.None], mean[gpu.Paper], mean[gpu.Rails])
			}
		}
	}
	for rate, mean := range means["NU"] {
		other, both := means["U"][rate]
		for _, mode := range []gpu.Mode{gpu.Paper, gpu.Rails} {
			if both && math.Abs(mean[mode]-other[mode]) > .02*other[mode] {
				t.Errorf("r0 = %s, %s: frames of %v in Model U and %v in Model NU: want them to overlap", rate, mode, other[mode], mean[mode])
			}
		}
	}
}

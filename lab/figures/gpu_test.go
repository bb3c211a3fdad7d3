package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lab/chart"
)

// TestFrameLengths simulates the reference's mean frame lengths with fewer seeds and
// slots than "make figures", which fails if they differ.
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

// TestPaperStatements checks the numbers of docs/figures against the paper's
// statements about its Figs. 2 and 3.
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

// TestGPUDocumentHasTheNumbers compares the tables of docs/gpu.md with the CSVs.
func TestGPUDocumentHasTheNumbers(t *testing.T) {
	doc := string(read(t, "../../docs", "gpu.md"))
	for _, r := range frameReferences {
		model := frameModels[r.model].name
		line := fmt.Sprintf("\n| %s %s |", model, strings.TrimPrefix(fmt.Sprintf("%.3f", r.rate), "0"))
		for _, row := range kept(t, &gpuTable, model) {
			if rate, err := strconv.ParseFloat(row[1], 64); err != nil {
				t.Fatal(err)
			} else if rate == r.rate {
				line += fmt.Sprintf(" %s |", threeDigits(t, row[4]))
			}
		}
		if !strings.Contains(doc, line+"\n") {
			t.Errorf("docs/gpu.md has no line %s", line)
		}
	}
	for _, servers := range []int{8, 16, 32, 64, 128} {
		cells := ""
		for _, row := range kept(t, &gpuStages, strconv.Itoa(servers*stageGPUs)) {
			if row[1] != "flat König, 64 KiB" && (row[1] != "padded, from scratch" || servers <= paddedUpTo) {
				stages, err := strconv.ParseFloat(row[3], 64)
				if err != nil {
					t.Fatal(err)
				}
				cells += fmt.Sprintf(" %.1f |", stages)
			}
		}
		if want := cells + "\n"; !strings.Contains(doc, want) || !strings.Contains(doc, fmt.Sprintf("\n| %d |", servers)) {
			t.Errorf("docs/gpu.md has no line for %d servers with%s", servers, cells)
		}
	}
}

// threeDigits prints a number with three digits, and two decimals at most.
func threeDigits(t *testing.T, text string) string {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

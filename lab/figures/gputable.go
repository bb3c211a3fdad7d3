package figures

import (
	"context"
	"fmt"
	"math"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
)

// gpuTable is the mean frame lengths of docs/gpu.md's table, 20 seeds each, and
// those of a reference that was computed independently.
var gpuTable = chart.Set{Name: "gpu-table", Measure: measureTable}

// frameReferences are the mean lengths without balancing, with the published one,
// and by Eq. 26; and the last digits that they are given with.
var frameReferences = []struct {
	model         int // of frameModels
	rate          float64
	means, digits [3]float64 // [scheme], as frameSchemes
}{
	{0, .015, [3]float64{3.72, 2.87, 1.21}, [3]float64{.01, .01, .01}},
	{0, .035, [3]float64{26.3, 8.95, 4.03}, [3]float64{.1, .01, .01}},
	{0, .055, [3]float64{190, 36.2, 24.2}, [3]float64{1, .1, .1}},
	{1, .010, [3]float64{1.99, 1.75, 1.05}, [3]float64{.01, .01, .01}},
	{1, .020, [3]float64{9.37, 4.17, 1.56}, [3]float64{.01, .01, .01}},
	{1, .030, [3]float64{98, 7.05, 2.90}, [3]float64{1, .01, .01}},
}

// referenceSeeds are how many simulations the reference is the mean of.
const referenceSeeds = 20

// measureTable simulates all of the table.
func measureTable(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("model", "r0", "scheme", "seeds", "mean_frame", "deviation", "reference")
	for i := range frameReferences {
		for k, mode := range frameSchemes {
			step(i*len(frameSchemes)+k, len(frameReferences)*len(frameSchemes), fmt.Sprintf("simulate r0 = %.3f, %s, %d seeds", frameReferences[i].rate, mode, referenceSeeds))
			if err := addReference(ctx, t, i, k, referenceSeeds, frameSlots); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// addReference simulates a mean frame length of the reference. It fails if the
// two differ by more than 4 standard deviations of their difference and half the
// reference's last digit.
func addReference(ctx context.Context, t *chart.Table, i, scheme, seeds, slots int) error {
	r := &frameReferences[i]
	m := &frameModels[r.model]
	simulation := papers.Simulation{Cluster: frameCluster, Hotspot: m.hotspot, Rate: r.rate, Mode: frameSchemes[scheme], Slots: slots, Warmup: slots / (frameSlots / frameWarmup)}
	all, err := simulation.Repeat(ctx, seeds, func() {})
	if err != nil {
		return err
	}
	// The reference's means are of runs of frameSlots.
	ofReference := all.Deviation * math.Sqrt(float64(slots)/frameSlots/referenceSeeds)
	if allowed := 4*math.Hypot(all.Deviation/math.Sqrt(float64(seeds)), ofReference) + r.digits[scheme]/2; math.Abs(all.Mean-r.means[scheme]) > allowed {
		return fmt.Errorf("model %s, r0 = %v, %s: mean frame %.4f, want %v within %.4f", m.name, r.rate, frameSchemes[scheme], all.Mean, r.means[scheme], allowed)
	}
	t.Add(m.name, r.rate, frameSchemes[scheme], seeds, all.Mean, all.Deviation, r.means[scheme])
	return nil
}

package libforcarry

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// deaths draws NICs that die between frames and within them, with one of each server left. The rank at
// which a frame stops is any.
func deaths(rng *rand.Rand, j *job, count int) {
	left := make([]int, j.servers)
	for s := range left {
		left[s] = j.gpus
	}
	nics := rng.Perm(j.servers * j.gpus)
	for frame := 1; count > 0; count-- {
		for len(nics) > 0 && left[nics[0]/j.gpus] == 1 {
			nics = nics[1:]
		}
		if len(nics) == 0 {
			return
		}
		left[nics[0]/j.gpus]--
		x := stop{rank: rng.IntN(j.servers * j.gpus), frame: frame, moment: "b", nics: nics[:1]}
		if count%3 > 0 {
			x.moment = fmt.Sprintf("%c%d", "dcx"[rng.IntN(3)], rng.IntN(6))
		}
		if x.moment[0] == 'x' {
			x.frame += (6 - frame%5) % 5
			frame = x.frame
		}
		j.breaks, nics = append(j.breaks, x), nics[1:]
		frame += 1 + rng.IntN(max(1, 2*j.frames/(j.servers*j.gpus)))
	}
}

// Frames whose routing changes arrive whole, and sums are right, while NICs die between frames and within
// them. After the first frame nothing is allocated, registered or connected.
func TestFrames(t *testing.T) {
	jobs := []job{
		{servers: 3, gpus: 4, tokens: 12, choices: 4, experts: 24, row: 200, frames: 60, seed: 1, elements: "bfloat", rate: 200_000_000},
	}
	if os.Getenv("FORS_LONG") != "" {
		jobs = []job{
			{servers: 3, gpus: 4, tokens: 16, choices: 4, experts: 24, row: 512, frames: 1000, seed: 2, elements: "float", rate: 200_000_000},
			{servers: 8, gpus: 4, tokens: 16, choices: 8, experts: 64, row: 512, frames: 1000, seed: 3, elements: "bfloat", rate: 200_000_000},
		}
	}
	for _, j := range jobs {
		deaths(rand.New(rand.NewPCG(61, uint64(j.seed))), &j, j.servers*(j.gpus-1))
		c := must(t, quick, j)
		if c.allocations+c.registrations != 0 {
			t.Errorf("after the first frame memory is allocated %d times and registered %d times", c.allocations, c.registrations)
		}
		if c.opened == 0 || c.registered == 0 {
			t.Error("nothing is counted")
		}
		if want := int64(len(j.breaks)); c.dead != want || c.own != want || c.repeats == 0 {
			t.Errorf("%d NICs are dead, %d know it of themselves, and %d exchanges were repeated: want %d dead ones", c.dead, c.own, c.repeats, want)
		}
		t.Logf("%d ranks: %.1f frames a second", j.servers*j.gpus, float64(j.frames-1)/c.seconds)
	}
}

// Clusters, rows and failures of all sorts, several at a time; one server takes no NIC.
func TestDraws(t *testing.T) {
	draws := 5
	if os.Getenv("FORS_LONG") != "" {
		draws = 150
	}
	for draw := range draws {
		rng := rand.New(rand.NewPCG(62, uint64(draw)))
		j := job{servers: 1 + rng.IntN(4), gpus: 1 + rng.IntN(4), tokens: 1 + rng.IntN(20), choices: 1 + rng.IntN(6), row: 1 + rng.IntN(100), frames: 8,
			seed: draw, elements: []string{"float", "bfloat"}[rng.IntN(2)], rate: []int64{20_000_000, 1 << 30}[rng.IntN(2)]}
		if draw == 0 {
			j.servers, j.without = 1, 1
		}
		ranks := j.servers * j.gpus
		j.experts = ranks * (1 + rng.IntN(3))
		if j.servers > 1 {
			deaths(rng, &j, rng.IntN(ranks))
			for i := range j.breaks {
				j.breaks[i].frame = 1 + j.breaks[i].frame%(j.frames-2) // not the last: nobody would learn it
				if i > 0 && rng.IntN(3) == 0 {
					j.breaks[i].frame, j.breaks[i].rank, j.breaks[i].moment = j.breaks[i-1].frame, j.breaks[i-1].rank, j.breaks[i-1].moment
				}
			}
		}
		dead := map[int]bool{}
		for _, x := range j.breaks {
			dead[x.nics[0]] = true
		}
		if c := must(t, quick, j); c.dead != int64(len(dead)) || c.allocations+c.registrations != 0 {
			t.Errorf("draw %d: %d NICs are dead, want %d; memory is allocated %d times and registered %d times", draw, c.dead, len(dead), c.allocations, c.registrations)
		}
	}
}

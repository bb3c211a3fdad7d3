package photonic

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// ZipfFactor is the exponent of the paper's Zipfian sizes (section 5.1).
const ZipfFactor = 0.4

// randomSizes returns message sizes between n GPUs, [source][destination], drawn uniformly
// from 1 byte to twice the mean.
func randomSizes(n int, mean int64, seed uint64) []int64 {
	r := rand.New(rand.NewPCG(seed, 0))
	return fill(n, func(int) float64 { return r.Float64() * 2 * float64(mean) })
}

// zipfSizes returns sizes of a given mean, the i-th largest proportional to i^−factor,
// assigned to the pairs at random.
func zipfSizes(n int, mean int64, factor float64, seed uint64) []int64 {
	pairs := n * (n - 1)
	sum := 0.0
	for i := range pairs {
		sum += math.Pow(float64(i+1), -factor)
	}
	order := rand.New(rand.NewPCG(seed, 0)).Perm(pairs)
	return fill(n, func(i int) float64 {
		return float64(mean) * float64(pairs) * math.Pow(float64(order[i]+1), -factor) / sum
	})
}

// fill makes sizes of the pairs in order, at least a byte each.
func fill(n int, size func(i int) float64) []int64 {
	sizes := make([]int64, n*n)
	i := 0
	for pair := range sizes {
		if pair/n != pair%n {
			sizes[pair] = max(1, int64(math.Round(size(i))))
			i++
		}
	}
	return sizes
}

// meanMessage is the mean of the messages that are not empty, in bytes, at least 1.
func meanMessage(sizes []int64) int64 {
	sum, count := int64(0), int64(0)
	for _, b := range sizes {
		if b > 0 {
			sum += b
			count++
		}
	}
	if count == 0 {
		return 1
	}
	return max(1, (sum+count/2)/count)
}

// Draw gives an instance sizes by the name of their distribution: uniform, random
// or zipf, with its message as the mean.
func (in *Instance) Draw(name string, factor float64, seed uint64) error {
	if name != "uniform" && (in.GPUs < 2 || in.GPUs > MaxVaried) {
		return fmt.Errorf("%s sizes between %d GPUs: want from 2 to %d", name, in.GPUs, MaxVaried)
	}
	switch name {
	case "uniform":
		in.Sizes = nil
	case "random":
		in.Sizes = randomSizes(in.GPUs, in.Message, seed)
	case "zipf":
		if !(factor > 0 && factor <= 4) {
			return fmt.Errorf("a Zipf factor of %g: want more than 0, up to 4", factor)
		}
		in.Sizes = zipfSizes(in.GPUs, in.Message, factor, seed)
	default:
		return fmt.Errorf("unknown sizes %q: want uniform, random or zipf", name)
	}
	return nil
}

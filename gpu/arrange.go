package gpu

import (
	"cmp"
	"fmt"
	"slices"
)

// stint is a stage of servers: a matching and its length in bytes.
type stint struct {
	turn   int32
	length int64
}

// pull is the number of bytes that the busiest GPUs move inside their servers per byte
// of a stage's length: to the NICs before the stage and from them after it.
type pull struct{ before, after float64 }

// mostStints is the largest number of parts into which stages are cut.
const mostStints = 1 << 20

// arrange cuts stages of servers that are longer than most into equal parts; 0 means no limit.
// It tries three orders, the longest first, last, or in the middle, and returns the one in
// which moves during the stages are estimated to delay them least. It fails if there are too
// many parts.
func (m Model) arrange(lengths []int64, most int64, by pull) ([]stint, float64, error) {
	var falling []stint
	for turn, v := range lengths {
		parts := int64(1)
		if most > 0 {
			parts = over(v, most)
		}
		if most > 0 && parts > mostStints-int64(len(falling)) {
			return nil, 0, fmt.Errorf("stages of at most %d bytes are too many: want at most %d", most, mostStints)
		}
		for part := range parts {
			falling = append(falling, stint{int32(turn), evenly(v, parts, part)})
		}
	}
	slices.SortStableFunc(falling, func(a, b stint) int { return cmp.Compare(b.length, a.length) })
	rising := slices.Clone(falling)
	slices.Reverse(rising)
	hill := make([]stint, 0, len(falling))
	for at := len(falling) - 1; at >= 0; at-- {
		if at%2 == 1 {
			hill = append(hill, falling[at])
		}
	}
	for at := 0; at < len(falling); at += 2 {
		hill = append(hill, falling[at])
	}
	best, least := falling, m.estimate(falling, by)
	for _, order := range [][]stint{hill, rising} {
		if time := m.estimate(order, by); time < least {
			best, least = order, time
		}
	}
	return best, least, nil
}

// evenly returns a part, by its index, of v divided into parts as equal as possible, the
// larger ones first.
func evenly(v, parts, part int64) int64 { return (v + parts - 1 - part) / parts }

// estimate estimates the time of stages together with the moves during them.
func (m Model) estimate(order []stint, by pull) float64 {
	at := func(i int) float64 {
		if i < 0 || i >= len(order) {
			return 0
		}
		return float64(order[i].length)
	}
	sum := 0.0
	latency := m.Latency.Seconds()
	for i := -1; i <= len(order); i++ {
		// The conversions prevent a fused multiply-add, which would round only once.
		moved := float64(by.before*at(i+1)) + float64(by.after*at(i-1))
		sum += max(at(i)/m.B2, moved/m.B1) + latency
	}
	return sum
}

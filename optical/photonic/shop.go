package photonic

import (
	"context"

	"github.com/forsd/forsd/bipartite"
)

// OpenShop plans the hops of some classes on one topology of k switches. count,
// [class][switch], has the hops that each class needs over each; their order does
// not matter on a circulant. Class and switch do one hop at a time, so this is an
// open shop with preemption (Gonzalez and Sahni, J. ACM 23, 1976): the largest sum of a
// class or a switch suffices, and an edge colouring of the multigraph of hops, made
// regular, gives the schedule. OpenShop returns that number of hops, and the switch of each
// class at each of them, or Wait.
func OpenShop(ctx context.Context, k int, count []int32) (length int, switches [][]int8, err error) {
	classes := len(count) / k
	load := make([]int, k)
	job := make([]int, classes)
	for i, c := range count {
		job[i/k] += int(c)
		load[i%k] += int(c)
		length = max(length, job[i/k], load[i%k])
	}
	if length == 0 {
		return 0, make([][]int8, classes), nil
	}
	// Left: classes, then a dummy for each switch; right: switches, then a dummy for
	// each class. The dummies take the idle time, and have the graph's mirror image
	// between them.
	n := classes + k
	var arcs []bipartite.Arc
	add := func(left, right, edges int) {
		if edges > 0 {
			arcs = append(arcs, bipartite.Arc{Left: int32(left), Right: int32(right), Count: int32(edges)})
		}
	}
	for c := range classes {
		for s := range k {
			add(c, s, int(count[c*k+s]))
		}
		add(c, k+c, length-job[c])
	}
	for s := range k {
		add(classes+s, s, length-load[s])
		for c := range classes {
			add(classes+s, k+c, int(count[c*k+s]))
		}
	}
	match := make([]int32, n*length)
	var colourer bipartite.Colourer
	if err := colourer.Arcs(ctx, n, length, arcs, match); err != nil {
		return 0, nil, err
	}
	moves := make([]int8, classes*length)
	switches = make([][]int8, classes)
	for c := range classes {
		switches[c] = moves[c*length : (c+1)*length]
		for t := range length {
			switches[c][t] = Wait
			if s := match[t*n+c]; s < int32(k) {
				switches[c][t] = int8(s)
			}
		}
	}
	return length, switches, nil
}

package pods

// occupied is the resources in use in a block.
type occupied struct {
	out, in         []bool  // [leaf·planes + plane] cables of leaves, up and down
	rise, fall      []bool  // [pod·lanes + lane] cables of mids, up and down
	sends, receives []int32 // [leaf] units
}

// addMissing adds the units that other steps have left out: between leaves, each to the
// first block that has a way for it, and to new blocks at last.
func (x *instance) addMissing(u *units) {
	leaves, planes, lanes := len(x.Leaves), x.Planes(), x.Lanes()
	lack := make([]int32, leaves*leaves)
	for a := range leaves {
		for b := range leaves {
			if A, B := &x.cells[x.cellOf[a]], &x.cells[x.cellOf[b]]; x.ok(a, b) {
				lack[a*leaves+b] = A.s * B.n
			}
		}
	}
	blocks := make([]*occupied, x.blocks)
	for i := range blocks {
		blocks[i] = x.unoccupied()
	}
	for i, block := range u.block {
		a, b, o := int(u.src[i]), int(u.dst[i]), blocks[block]
		lack[a*leaves+b]--
		o.sends[a]++
		o.receives[b]++
		if u.way[i] < 0 {
			continue
		}
		j := int(u.way[i]) - lanes
		if j < 0 {
			j = int(x.planeOf[u.way[i]])
			o.rise[int(u.p[i])*lanes+int(u.way[i])], o.fall[int(u.q[i])*lanes+int(u.way[i])] = true, true
		}
		o.out[a*planes+j], o.in[b*planes+j] = true, true
	}
	for i, n := range lack {
		for ; n > 0; n-- {
			a, b := i/leaves, i%leaves
			at, way := 0, int16(0)
			for found := false; !found; {
				if at == len(blocks) {
					blocks = append(blocks, x.unoccupied())
				}
				if way, found = x.free(blocks[at], a, b); !found {
					at++
				}
			}
			u.add(int32(at), way, int16(x.Leaves[a].Pod), int16(x.Leaves[b].Pod))
			u.src, u.dst = append(u.src, int32(a)), append(u.dst, int32(b))
		}
	}
	x.blocks = int32(len(blocks))
	if len(u.to) < len(u.block) {
		u.to = make([]int32, len(u.block))
	}
}

func (x *instance) unoccupied() *occupied {
	leaves, planes, lanes := len(x.Leaves), x.Planes(), x.Lanes()
	return &occupied{out: make([]bool, leaves*planes), in: make([]bool, leaves*planes), rise: make([]bool, x.Pods*lanes), fall: make([]bool, x.Pods*lanes),
		sends: make([]int32, leaves), receives: make([]int32, leaves)}
}

// free finds a way that is free in a block for one more unit between two leaves, and takes
// it.
func (x *instance) free(o *occupied, a, b int) (way int16, found bool) {
	planes, lanes := x.Planes(), x.Lanes()
	A, B := &x.Leaves[a], &x.Leaves[b]
	if o.sends[a] >= x.cells[x.cellOf[a]].s*x.group || o.receives[b] >= int32(len(B.Slots)) {
		return 0, false
	}
	way = -2
	for j := 0; j < planes && way == -2; j++ {
		switch {
		case a == b:
			way = -1
		case !A.Up[j] || !B.Up[j] || o.out[a*planes+j] || o.in[b*planes+j]:
		case A.Pod == B.Pod:
			way = int16(lanes + j)
			o.out[a*planes+j], o.in[b*planes+j] = true, true
		default:
			for k := x.First[j]; k < x.First[j+1] && way == -2; k++ {
				if rise, fall := A.Pod*lanes+k, B.Pod*lanes+k; x.Up[rise] && x.Up[fall] && !o.rise[rise] && !o.fall[fall] {
					way = int16(k)
					o.rise[rise], o.fall[fall] = true, true
					o.out[a*planes+j], o.in[b*planes+j] = true, true
				}
			}
		}
	}
	if way == -2 {
		return 0, false
	}
	o.sends[a]++
	o.receives[b]++
	return way, true
}

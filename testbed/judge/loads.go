package judge

import "fmt"

// Loads are the loads of cables in an exchange of all with all by base LIDs.
type Loads struct {
	AtOnce      int // transfers on the busiest cable, in one direction, when all are sent at once
	InStep      int // the same of a linear shift, step by step, added up: server i sends to i+s in step s
	Unreachable int // pairs without a path in the tables
}

// Loads walks the exchange of some servers, named by the GUIDs of their ports in the order of
// the shift, on tables. An entry that leads elsewhere, or round in a circle, is an error;
// a missing one is counted.
func (f *Fabric) Loads(t Tables, servers []uint64) (*Loads, error) {
	ends := make([]end, len(servers))
	for i, g := range servers {
		e, ok := f.ports[g]
		if !ok || f.home(e) < 0 {
			return nil, fmt.Errorf("server %016x is not at a switch", g)
		}
		ends[i] = e
	}
	w := &walker{f: f, rows: t.byNode(f), all: make([]int32, len(f.nodes)<<8), step: make([]int32, len(f.nodes)<<8), paths: map[[2]int][]int32{}}
	out := &Loads{}
	for s := 1; s < len(ends); s++ {
		clear(w.step)
		w.most = 0
		for i := range ends {
			path, err := w.path(f.home(ends[i]), ends[(i+s)%len(ends)])
			if err != nil {
				return nil, err
			}
			if path == nil {
				out.Unreachable++
				continue
			}
			w.count(int32(ends[i].channel()))
			for _, c := range path {
				w.count(c)
			}
		}
		out.InStep += int(w.most)
	}
	for _, n := range w.all {
		out.AtOnce = max(out.AtOnce, int(n))
	}
	return out, nil
}

// walker counts transfers by channel, those of all steps and those of the present one.
type walker struct {
	f         *Fabric
	rows      [][]uint8
	all, step []int32
	most      int32              // of the present step
	paths     map[[2]int][]int32 // by switch and LID
}

// path lists the channels from a switch to an end port, or nil if an entry is missing.
func (w *walker) path(at int, dst end) (path []int32, err error) {
	f, lid := w.f, w.f.at(dst).lid
	key := [2]int{at, lid}
	if path, known := w.paths[key]; known {
		return path, nil
	}
	for range f.nodes {
		if w.rows[at] == nil || lid == 0 || w.rows[at][lid] == noEntry {
			w.paths[key] = nil
			return nil, nil
		}
		out := end{at, int(w.rows[at][lid])}
		if out.port == 0 || out.port >= len(f.nodes[at].ports) || f.at(out).peer < 0 {
			return nil, fmt.Errorf("%s leads LID %d to a port without a cable", f.label(out.channel()), lid)
		}
		path = append(path, int32(out.channel()))
		next := f.far(out)
		if next == dst {
			w.paths[key] = path
			return path, nil
		}
		if f.nodes[next.node].kind != 'S' {
			return nil, fmt.Errorf("%s delivers LID %d to %s", f.label(out.channel()), lid, f.label(next.channel()))
		}
		at = next.node
	}
	return nil, fmt.Errorf("LID %d goes round in a circle, %s is part of it", lid, f.label(int(path[len(path)-1])))
}

func (w *walker) count(c int32) {
	w.all[c]++
	w.step[c]++
	w.most = max(w.most, w.step[c])
}

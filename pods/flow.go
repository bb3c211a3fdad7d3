package pods

// flow finds circulations with bounds on arcs by blocking flows (Dinic). It keeps its
// memory from call to call.
type flow struct {
	head  []int32 // [node] its first arc, −1 if none
	next  []int32 // [arc]; arc x and x^1 are one arc forth and back
	to    []int32
	room  []int32
	level []int32
	at    []int32
	queue []int32
	lack  []int32 // [node] lower bounds in minus lower bounds out
}

// reset begins a network of so many nodes.
func (f *flow) reset(nodes int) {
	f.head = grow(f.head, nodes+2)
	f.lack = grow(f.lack, nodes+2)
	for i := range f.head {
		f.head[i], f.lack[i] = -1, 0
	}
	f.next, f.to, f.room = f.next[:0], f.to[:0], f.room[:0]
}

// arc adds an arc that carries from least to most, and returns its number.
func (f *flow) arc(u, v, least, most int32) int32 {
	id := int32(len(f.to))
	f.to = append(f.to, v, u)
	f.room = append(f.room, most-least, 0)
	f.next = append(f.next, f.head[u], f.head[v])
	f.head[u], f.head[v] = id, id+1
	f.lack[u] -= least
	f.lack[v] += least
	return id
}

// circulate finds a circulation, and reports whether there is one.
func (f *flow) circulate() bool {
	nodes := int32(len(f.head)) - 2
	s, t := nodes, nodes+1
	need := int32(0)
	for v := range nodes {
		switch x := f.lack[v]; {
		case x > 0:
			f.arc(s, v, 0, x)
			need += x
		case x < 0:
			f.arc(v, t, 0, -x)
		}
	}
	for need > 0 && f.rank(s, t) {
		copy(f.at, f.head)
		for {
			x := f.push(s, t, need)
			if x == 0 {
				break
			}
			need -= x
		}
	}
	return need == 0
}

// carried returns what an arc carries above its least.
func (f *flow) carried(id int32) int32 { return f.room[id^1] }

// rank ranks the nodes by their distance from s, and reports whether t is reachable.
func (f *flow) rank(s, t int32) bool {
	f.level, f.at = grow(f.level, len(f.head)), grow(f.at, len(f.head))
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[s] = 0
	f.queue = append(f.queue[:0], s)
	for x := 0; x < len(f.queue) && f.level[t] < 0; x++ {
		u := f.queue[x]
		for a := f.head[u]; a >= 0; a = f.next[a] {
			if v := f.to[a]; f.room[a] > 0 && f.level[v] < 0 {
				f.level[v] = f.level[u] + 1
				f.queue = append(f.queue, v)
			}
		}
	}
	return f.level[t] >= 0
}

// push sends up to most from u to t by ranks.
func (f *flow) push(u, t, most int32) int32 {
	if u == t {
		return most
	}
	sent := int32(0)
	for ; f.at[u] >= 0; f.at[u] = f.next[f.at[u]] {
		a := f.at[u]
		if v := f.to[a]; f.room[a] > 0 && f.level[v] == f.level[u]+1 {
			x := f.push(v, t, min(most-sent, f.room[a]))
			f.room[a] -= x
			f.room[a^1] += x
			if sent += x; sent == most {
				return sent
			}
		}
	}
	return sent
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

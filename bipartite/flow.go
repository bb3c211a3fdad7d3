package bipartite

import "math"

// Flow finds maximum flows, and circulations with bounds on arcs, by blocking flows (Dinic).
// It keeps its memory from call to call.
type Flow struct {
	head  []int32 // [node] its first arc, −1 if none
	next  []int32 // [arc]; arc x and x^1 are one arc forth and back
	to    []int32
	room  []int
	level []int32
	at    []int32
	queue []int32
	lack  []int // [node] lower bounds in minus lower bounds out
}

// Reset begins a network of so many nodes.
func (f *Flow) Reset(nodes int) {
	grow(&f.head, nodes+2)
	grow(&f.lack, nodes+2)
	for i := range f.head {
		f.head[i], f.lack[i] = -1, 0
	}
	f.next, f.to, f.room = f.next[:0], f.to[:0], f.room[:0]
}

// Arc adds an arc that carries from least to most, and returns its number.
func (f *Flow) Arc(u, v int32, least, most int) int32 {
	id := int32(len(f.to))
	f.to = append(f.to, v, u)
	f.room = append(f.room, most-least, 0)
	f.next = append(f.next, f.head[u], f.head[v])
	f.head[u], f.head[v] = id, id+1
	f.lack[u] -= least
	f.lack[v] += least
	return id
}

// Circulate finds a circulation, and reports whether there is one.
func (f *Flow) Circulate() bool {
	nodes := int32(len(f.head)) - 2
	s, t := nodes, nodes+1
	need := 0
	for v := range nodes {
		switch x := f.lack[v]; {
		case x > 0:
			f.Arc(s, v, 0, x)
			need += x
		case x < 0:
			f.Arc(v, t, 0, -x)
		}
	}
	return f.Maximum(s, t) == need
}

// Maximum adds to the flow from s to t until it is maximum, and returns how much it added.
func (f *Flow) Maximum(s, t int32) (sent int) {
	for f.rank(s, t) {
		copy(f.at, f.head)
		for more := 1; more > 0; sent += more {
			more = f.push(s, t, math.MaxInt)
		}
	}
	return sent
}

// Reached reports whether a node is on the side of s of the minimum cut that Maximum found.
func (f *Flow) Reached(node int32) bool { return f.level[node] >= 0 }

// Carried returns what an arc carries above its least.
func (f *Flow) Carried(arc int32) int { return f.room[arc^1] }

// rank ranks the nodes by their distance from s, and reports whether t is reachable.
func (f *Flow) rank(s, t int32) bool {
	grow(&f.level, len(f.head))
	grow(&f.at, len(f.head))
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
func (f *Flow) push(u, t int32, most int) int {
	if u == t {
		return most
	}
	sent := 0
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

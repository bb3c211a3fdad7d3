package photonic

// ordered is an element of a queue.
type ordered[T any] interface{ before(T) bool }

// queue is a binary heap, the first on top.
type queue[T ordered[T]] []T

// push adds to the queue.
func (q *queue[T]) push(v T) {
	s := append(*q, v)
	*q = s
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !v.before(s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = v
}

// pop removes the first.
func (q *queue[T]) pop() T {
	s := *q
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*q = s
	i := 0
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(last) {
			break
		}
		s[i] = s[child]
		i = child
	}
	if len(s) > 0 {
		s[i] = last
	}
	return first
}

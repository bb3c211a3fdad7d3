package lft

// The relay leaf.
//
// Where no up-then-down path exists (spine to spine, leaf to a spine whose cable
// is gone, spine to a leaf whose cable is gone, two leaves without a common
// spine) a packet goes down to one fixed relay leaf R and up again: a leaf goes
// up to an upper switch that has a cable to R, an upper switch without a way to
// the target goes down to R, and R goes on by the ordinary rule or not at all.
//
// The channel dependency graph of all entries together has no cycle:
//
//  1. An upper switch sends a LID down to a leaf only when the LID leaves the
//     tree at that leaf, or when that leaf is R. So a packet that came down goes
//     up again at R and nowhere else, and a cycle must pass through R: it holds
//     dependencies X→R→Y and, after them, some Z→R.
//  2. R sends a LID up to Y only when Y is where the LID leaves the tree, or when
//     Y has a cable to the leaf D ≠ R where it does; Y then goes straight to D.
//     So R→Y is followed by the end of the path or by Y→D, and Y→D by the end:
//     no dependency leads from R→Y to any Z→R.
//
// Parts that the tree does not cover lie below it (updown.go). They add channels into the
// tree, which only channels further up within a part lead to, and channels out of it,
// which only channels further down follow.

// relaysTo reports whether packets to e can go on from the relay leaf.
func (n *network) relaysTo(e *end) bool {
	switch {
	case n.relay < 0:
		return false
	case e.leaf < 0:
		return n.reaches(n.relay, e.upper)
	default:
		return e.leaf != n.relay && n.meet(n.relay, e.leaf)
	}
}

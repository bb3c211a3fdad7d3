package lft

// Common returns the entries that are the same in all sets of tables, of the switches that
// all of them have. A path through it is a path through each of them. There must be at
// least one set; nil stands for a set without switches.
func Common(all ...*Tables) *Tables {
	out := &Tables{}
	if all[0] == nil {
		return out
	}
next:
	for _, s := range all[0].Switches {
		same := s.Out
		for _, t := range all[1:] {
			if t == nil {
				return &Tables{}
			}
			i := t.Find(s.GUID)
			if i < 0 {
				continue next
			}
			same = sameEntries(same, t.Switches[i].Out)
		}
		s.Out = same
		out.Switches = append(out.Switches, s)
	}
	return out
}

// sameEntries returns a with NoPath where b differs, a itself if it does not.
func sameEntries(a, b []uint8) []uint8 {
	out, shared := a, true
	for lid, port := range a {
		if lid < len(b) && b[lid] == port || port == NoPath {
			continue
		}
		if shared {
			out, shared = append([]uint8(nil), a...), false
		}
		out[lid] = NoPath
	}
	return out
}

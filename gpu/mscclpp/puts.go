package mscclpp

import "github.com/forsd/forsd/gpu"

// put is a copy from a buffer of a rank to one of a peer in its server, or of its own, in
// chunks.
type put struct {
	peer     gpu.Rank
	from, to string // buffers
	at, into int64
	size     int64
}

// puts returns the moves of ranks inside their servers, [rank][step]; step 0 is before the
// stages. They are cut where the sender's or the receiver's pieces are.
func puts(programs []gpu.Program, m, stages int, unit int64) [][][]put {
	all := make([][][]put, len(programs))
	for r := range all {
		all[r] = make([][]put, stages+2)
	}
	for _, kind := range []struct {
		from, to string
		list     func(*gpu.Program) *gpu.Moves
	}{
		{input, scratch, func(p *gpu.Program) *gpu.Moves { return &p.Before }},
		{scratch, output, func(p *gpu.Program) *gpu.Moves { return &p.After }},
		{input, output, func(p *gpu.Program) *gpu.Moves { return &p.Local }},
	} {
		for first := 0; first < len(programs); first += m {
			come := make([][]gpu.Move, m*m) // [receiver][sender] moves still to be received
			for l := range m {
				for _, x := range kind.list(&programs[first+l]).Receive {
					box := &come[l*m+int(x.Peer)-first]
					*box = append(*box, x)
				}
			}
			for l := range m {
				r := first + l
				base := int64(0)
				if kind.from == scratch {
					base = programs[r].NICSend
				}
				for _, x := range kind.list(&programs[r]).Send {
					box := &come[(int(x.Peer)-first)*m+l]
					for x.Bytes > 0 {
						y := &(*box)[0]
						n := min(x.Bytes, y.Bytes)
						step := &all[r][x.Beside+1]
						*step = append(*step, put{x.Peer, kind.from, kind.to, (base + x.Offset) / unit, y.Offset / unit, n / unit})
						x.Offset, x.Bytes = x.Offset+n, x.Bytes-n
						if y.Offset, y.Bytes = y.Offset+n, y.Bytes-n; y.Bytes == 0 {
							*box = (*box)[1:]
						}
					}
				}
			}
		}
	}
	return all
}

// shares divides the moves of a step among workers, in equal parts of at least a given size.
func shares(list []put, workers int, least int64) [][]put {
	total := int64(0)
	for _, x := range list {
		total += x.size
	}
	part := max((total+int64(workers)-1)/int64(workers), least, 1)
	var out [][]put
	room := int64(0)
	for _, x := range list {
		for x.size > 0 {
			if room == 0 {
				out, room = append(out, nil), part
			}
			y := x
			y.size = min(x.size, room)
			out[len(out)-1] = append(out[len(out)-1], y)
			room -= y.size
			x.at, x.into, x.size = x.at+y.size, x.into+y.size, x.size-y.size
		}
	}
	return out
}

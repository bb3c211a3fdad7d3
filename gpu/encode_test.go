package gpu

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is decoded is what was encoded, and carries the exchange out.
func TestEncode(t *testing.T) {
	for _, mode := range []Mode{Paper, Rails, MinMove, Bytes} {
		traffic, plan := good(t, mode)
		data := plan.Encode()
		if !bytes.Equal(data, plan.Encode()) {
			t.Fatal("the same plan has other bytes")
		}
		v, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		programs, err := v.Programs()
		if err != nil {
			t.Fatal(err)
		}
		if err := Replay(traffic, v.Lengths, programs); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan.Programs(), programs); diff != "" {
			t.Errorf("mode %s: programs change (−encoded +decoded):\n%s", mode, diff)
		}
		if v.Cluster != plan.Cluster || v.Length != plan.Length || v.Bound != plan.Bound || v.MovesBefore != plan.MovesBefore || v.MovesAfter != plan.MovesAfter {
			t.Errorf("mode %s: the header says %+v", mode, v)
		}
	}
}

// No byte of an exchange can change without being noticed.
func TestDecodeFindsDamage(t *testing.T) {
	_, plan := good(t, Rails)
	data := plan.Encode()
	for at := range data {
		damaged := slices.Clone(data)
		damaged[at] ^= 1 << (at % 8)
		if _, err := Decode(damaged); err == nil {
			t.Fatalf("a change of byte %d is not found", at)
		}
	}
	for size := range data {
		if _, err := Decode(data[:size]); err == nil {
			t.Fatalf("an exchange cut after %d bytes is taken", size)
		}
	}
}

// FuzzDecode mends the checksum, so that what lies behind it is reached. What is
// read fits what it says of itself.
func FuzzDecode(f *testing.F) {
	var p Planner
	for _, c := range []Cluster{{1, 2}, {2, 1}, {3, 2}} {
		traffic := uniform(c, 1)
		traffic.Bytes[c.Ranks()-1] += 7
		plan, err := p.Plan(traffic, Options{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plan.Encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if data = slices.Clone(data); len(data) >= headerSize {
			binary.LittleEndian.PutUint32(data[atCRC:], checksum(data))
		}
		v, err := Decode(data)
		if err != nil {
			return
		}
		for r := range min(v.Ranks(), 64) {
			p, err := v.Program(Rank(r))
			if err != nil {
				continue
			}
			stage := -1
			for _, x := range p.Send {
				if x.Stage <= stage || x.Stage >= len(v.Lengths) || x.Bytes > v.Lengths[x.Stage] || x.Offset < 0 || x.Offset+x.Bytes > p.NICSend ||
					v.server(x.Peer) == v.server(Rank(r)) || int(x.Peer) >= v.Ranks() {
					t.Fatalf("rank %d has turn %+v", r, x)
				}
				stage = x.Stage
			}
			for _, x := range p.After.Receive {
				if v.server(x.Peer) != v.server(Rank(r)) || x.Bytes <= 0 || x.Offset < 0 || x.Offset+x.Bytes > p.Output {
					t.Fatalf("rank %d receives %+v in a buffer of %d", r, x, p.Output)
				}
			}
			if again := p.encode(nil, v.GPUs); len(again) > len(data) {
				t.Fatalf("rank %d has %d bytes, encoded anew %d", r, len(data), len(again))
			}
		}
	})
}

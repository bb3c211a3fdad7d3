package lft

import (
	"bytes"
	"io"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// lhcb is the fabric of the paper's section 6 with LMC 5, and its largest
// simulated one.
var (
	lhcb  = fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	large = fabgen.Spec{Spines: 32, Leaves: 32, LMC: 5}
)

func BenchmarkBuild(b *testing.B) {
	spine := func(f *topology.Fabric) { unplug(f, f.Find(fabgen.SpineGUID+3)) }
	leaf := func(f *topology.Fabric) { unplug(f, f.Find(fabgen.LeafGUID+3)) }
	for _, c := range []struct {
		name   string
		spec   fabgen.Spec
		change func(*topology.Fabric)
	}{{"20,18", lhcb, nil}, {"20,18 spine dead", lhcb, spine}, {"20,18 leaf cut off", lhcb, leaf}, {"32,32", large, nil},
		{"32,32 spine dead", large, spine}, {"20,18 parallel", fabgen.Spec{Spines: 10, Leaves: 18, Hosts: []int{20}, Cables: 2, LMC: 5}, nil}} {
		b.Run(c.name, func(b *testing.B) {
			ft := tree(b, fabgen.Generate(c.spec), c.change)
			b.ReportAllocs()
			for b.Loop() {
				build(b, ft)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	ft := tree(b, fabgen.Generate(lhcb), nil)
	tables := build(b, ft)
	for _, c := range []struct {
		name   string
		owners []Owner
	}{{"lean", nil}, {"commented", OwnersOf(ft.Fabric)}} {
		b.Run(c.name, func(b *testing.B) {
			var buf bytes.Buffer
			b.ReportAllocs()
			for b.Loop() {
				buf.Reset()
				if err := tables.Write(&buf, c.owners); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(buf.Len()))
		})
	}
}

func BenchmarkRead(b *testing.B) {
	ft := tree(b, fabgen.Generate(lhcb), nil)
	tables := build(b, ft)
	for _, c := range []struct {
		name   string
		owners []Owner
	}{{"lean", nil}, {"commented", OwnersOf(ft.Fabric)}} {
		b.Run(c.name, func(b *testing.B) {
			var buf bytes.Buffer
			if err := tables.Write(&buf, c.owners); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(buf.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadBytes(buf.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkChanges(b *testing.B) {
	f := fabgen.Generate(lhcb)
	before := build(b, tree(b, f, nil))
	after := build(b, tree(b, f, func(f *topology.Fabric) { f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 30}) }))
	lids := LIDs(f)
	b.ReportAllocs()
	for b.Loop() {
		Changes(before, after)
		if Compare(before, before, lids) != nil {
			b.Fatal("tables differ from themselves")
		}
	}
}

func BenchmarkWriteDiscard(b *testing.B) {
	tables := build(b, tree(b, fabgen.Generate(large), nil))
	b.ReportAllocs()
	for b.Loop() {
		if err := tables.Write(io.Discard, nil); err != nil {
			b.Fatal(err)
		}
	}
}

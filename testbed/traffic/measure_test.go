package main

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/internal/tomography"
	"github.com/forsd/forsd/topology"
)

// TestMeasure slows a cable between switches in one direction by 40 %, and has the times that 36
// processes log in an exchange by the plan name it.
func TestMeasure(t *testing.T) {
	ctx, o := prepared(t)
	o.n, o.bytes = 6, 32768
	o.rate = together / int64(o.n*o.n)
	b, err := bringForsd(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.end(); err != nil {
			t.Error(err)
		}
	}()
	by := byForsd{b}
	if err := b.settled(ctx, by, o.states()[0]); err != nil {
		t.Fatal(err)
	}
	f, tables, err := b.state(ctx)
	if err != nil {
		t.Fatal(err)
	}
	x, err := by.exchanges(ctx)
	if err != nil {
		t.Fatal(err)
	}
	links := tomography.Of(f)
	leaf := int32(slices.IndexFunc(b.fabric.Nodes, func(n topology.Node) bool { return n.Name == "Leaf002" }))
	at := topology.PortRef{Node: leaf, Port: b.fabric.Trunks(leaf)[3]}
	if err := b.data.Slow(at, 40); err != nil {
		t.Fatal(err)
	}
	peer := b.fabric.At(at)
	want := b.fabric.PortLabel(at) + " → " + b.fabric.PortLabel(topology.PortRef{Node: peer.Peer, Port: peer.PeerPort})
	log := t.TempDir()
	e := x[0]
	e.env = append(slices.Clone(e.env), "FORS_LOG="+log)
	cmd, out, err := b.job(ctx, e, o.bytes, 3)
	if err != nil {
		t.Fatal(err)
	}
	ended := cmd.Run()
	if _, err := judge(cmd, out.String(), ended); err != nil {
		t.Fatal(err)
	}
	sent, err := tomography.ReadLogs(log)
	if err != nil {
		t.Fatal(err)
	}
	transfers, err := links.Transfers(tables, sent)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tomography.Find(transfers, links.Parts())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d transfers, noise %.3f: %+v", r.Transfers, r.Noise, r.Slow)
	if len(r.Slow) == 0 || r.Slow[0].Name != want && !slices.Contains(r.Slow[0].Or, want) {
		t.Errorf("%s is not named", want)
	}
}

package main

import (
	"context"
	"slices"
	"testing"

	"github.com/forsd/forsd/internal/tomography"
	"github.com/forsd/forsd/topology"
)

// TestMeasure slows a cable between switches in one direction by 40 %, and has the times that 36
// processes log in exchanges by the plan name it. Links are slow, so that what else the machine
// does is a small part of a phase, and what is not clear after one exchange is measured again.
func TestMeasure(t *testing.T) {
	ctx, o := prepared(t)
	o.n, o.bytes = 6, 32768
	o.rate = together / int64(4*o.n*o.n)
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
	var logs []string
	for range 4 {
		logs = append(logs, exchangeLogs(ctx, t, b, x[0]))
		sent, err := tomography.ReadLogs(logs...)
		if err != nil {
			t.Fatal(err)
		}
		transfers, err := links.Transfers(tables, sent)
		if err != nil {
			t.Fatal(err)
		}
		r, err := links.Find(transfers, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d transfers, noise %.3f: %+v", r.Transfers, r.Noise, r.Slow)
		if len(r.Slow) > 0 && (r.Slow[0].Name == want || slices.Contains(r.Slow[0].Or, want)) {
			return
		}
	}
	t.Errorf("%s is not named first", want)
}

// exchangeLogs makes an exchange, and returns where its ranks have logged it.
func exchangeLogs(ctx context.Context, t *testing.T, b *bed, x exchange) string {
	dir := t.TempDir()
	x.env = append(slices.Clone(x.env), "FORS_LOG="+dir)
	cmd, out, err := b.job(ctx, x, b.o.bytes, 3)
	if err != nil {
		t.Fatal(err)
	}
	ended := cmd.Run()
	if _, err := judge(cmd, out.String(), ended); err != nil {
		t.Fatal(err)
	}
	return dir
}

package judge

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
)

// BenchmarkJudge judges tables and a plan of 1024 hosts on three levels, as they are read.
func BenchmarkJudge(b *testing.B) {
	f := fabgen.GenerateTree(fabgen.KAry(16))
	result, err := podplan.Make(b.Context(), fabgen.FittedPods(b, f), podplan.Settings{})
	if err != nil {
		b.Fatal(err)
	}
	var csv, dump bytes.Buffer
	if err := phasetable.WriteCSV(&csv, result.Rows(7)); err != nil {
		b.Fatal(err)
	}
	if err := result.Tables.Write(&dump, nil); err != nil {
		b.Fatal(err)
	}
	figures, err := json.Marshal(result.Report())
	if err != nil {
		b.Fatal(err)
	}
	var servers []uint64
	for _, h := range f.ConnectedHosts() {
		servers = append(servers, uint64(h.GUID))
	}
	discovered := fabgen.Ibnetdiscover(f)
	b.SetBytes(int64(csv.Len()))
	for b.Loop() {
		j, err := ReadFabric(discovered)
		if err != nil {
			b.Fatal(err)
		}
		t, err := ReadTables(dump.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Tables(t); err != nil {
			b.Fatal(err)
		}
		p, err := ReadPlan(figures, csv.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := j.Plan(t, servers, p); err != nil {
			b.Fatal(err)
		}
	}
}

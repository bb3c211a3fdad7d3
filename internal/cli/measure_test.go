package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// writeLogs writes logs of an exchange of all hosts as FORS_LOG does. Each host has a clock of
// its own, and what leaves by the port slow takes half as long again.
func writeLogs(t *testing.T, dir string, f *topology.Fabric, tables *lft.Tables, slow topology.PortRef) {
	t.Helper()
	hosts := f.ConnectedHosts()
	rng := rand.New(rand.NewPCG(1, 1))
	clock := make([]int64, len(hosts))
	logs := make([]bytes.Buffer, len(hosts))
	for i := range logs {
		clock[i] = 1e18 + rng.Int64N(1e9)
		fmt.Fprintln(&logs[i], "comm,exchange,epoch,phase,what,src_rank,dst_rank,src_guid,dst_guid,lane,dlid,bytes,time_ns")
	}
	for k := 1; k < len(hosts); k++ {
		for i := range hosts {
			j := (i + k) % len(hosts)
			hops, err := tables.Trace(f, hosts[i].PortRef, hosts[j].LID)
			if err != nil {
				t.Fatal(err)
			}
			took := 40_000 + rng.Int64N(4000)
			for _, h := range hops {
				if h.Node == slow.Node && h.Out == slow.Port {
					took += took / 2
				}
			}
			at := int64(k) * 100_000
			row := func(to int, what string, src, dst ib.GUID, lane, lid, size int, time int64) {
				fmt.Fprintf(&logs[to], "5,1,7,%d,%s,%d,%d,%s,%s,%d,%d,%d,%d\n", k, what, i, j, src, dst, lane, lid, size, time)
			}
			row(j, "receive", hosts[i].GUID, hosts[j].GUID, -1, 0, 1<<20, at+clock[j])
			row(i, "send", hosts[i].GUID, hosts[j].GUID, 0, int(hosts[j].LID), 1<<20, at+clock[i])
			row(j, "received", hosts[i].GUID, hosts[j].GUID, -1, 0, 0, at+took+clock[j])
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range logs {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank-%d.csv", i)), logs[i].Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMeasure finds a slow cable by logs of hosts whose clocks differ, and says what is wrong
// with logs that cannot be used.
func TestMeasure(t *testing.T) {
	t.Chdir(t.TempDir())
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})
	tables, err := lft.Build(fabgen.Fitted(t, f))
	if err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := tables.Write(&dump, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("lfts", dump.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("t", fabgen.Ibnetdiscover(f), 0o644); err != nil {
		t.Fatal(err)
	}
	leaf := f.Find(fabgen.LeafGUID + 2)
	slow := topology.PortRef{Node: leaf, Port: f.Trunks(leaf)[1]}
	writeLogs(t, "log", f, tables, slow)
	writeLogs(t, "well", f, tables, topology.PortRef{Node: topology.None})
	if err := os.MkdirAll("none", 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("log/rank-3.csv")
	if err != nil {
		t.Fatal(err)
	}
	for dir, change := range map[string]func(string) string{
		"posted":  func(s string) string { return strings.ReplaceAll(s, ",received,", ",receive,") },
		"columns": func(s string) string { return strings.Replace(s, "time_ns", "time", 1) },
		"number":  func(s string) string { return s + "5,1,7,1,send,3,4,0x1,0x2,0,x,1,2\n" },
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "rank-3.csv"), []byte(change(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for r := range 16 { // one host of each leaf: its cable has the transfers of the cable that leads there
		text, err := os.ReadFile(fmt.Sprintf("log/rank-%d.csv", r))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll("few", 0o755); err != nil {
			t.Fatal(err)
		}
		if r%4 == 1 {
			if err := os.WriteFile(fmt.Sprintf("few/rank-%d.csv", r), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		dir, flags, stdout, stderr string
		code                       int
	}{
		{dir: "log", stdout: "Leaf002 port 6 → Spine001 port 3 ", stderr: "1 part is slow", code: command.Failed},
		{dir: "well", stdout: "slow parts  none"},
		{dir: "log", flags: "--one-clock", stderr: "want a positive time", code: command.Unusable},
		{dir: "few", flags: "--log few --log few --log few --further more.bin", stdout: "Leaf002 port 6 – Spine001 port 3; Leaf002", stderr: "exchanges by it, and measure both logs together", code: command.Failed},
		{dir: "log", flags: "--further more.bin", stderr: "1 part is slow", code: command.Failed},
		{dir: "none", stderr: "none has no rank-N.csv", code: command.Unusable},
		{dir: "posted", stderr: "run the program with FORS_WAY=plan", code: command.Unusable},
		{dir: "columns", stderr: "no column time_ns", code: command.Unusable},
		{dir: "number", stderr: "rank-3.csv: line 47: dlid", code: command.Unusable},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"measure", "t", "--lfts", "lfts", "--log", c.dir}, strings.Fields(c.flags)...)
		if code := Run(args, &stdout, &stderr); code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s %s: exit code %d\n%s\n%s", c.dir, c.flags, code, &stdout, &stderr)
		}
	}
	data, err := os.ReadFile("more.bin")
	if err != nil {
		t.Fatal(err)
	}
	if table, err := phasetable.Decode(data); err != nil || table.Servers() != 16 || table.Phases() < 1 || !table.ToBaseLIDs() {
		t.Errorf("the further phases: %+v, %v", table, err)
	}
	for _, c := range []struct {
		measured, flags, stdout, stderr string
		code                            int
	}{
		{measured: "log", flags: "--lfts lfts", stdout: "Leaf002 port 6 – Spine001 port 3: now transfers take 4", stderr: "the fabric has 1 fault", code: command.Failed},
		{measured: "slow.json", stdout: "Leaf002 port 6 – Spine001 port 3  4xHDR  200", stderr: "the fabric has 1 fault", code: command.Failed},
		{measured: "well", flags: "--lfts lfts", stdout: "faults        0"},
		{measured: "log", stderr: "--lfts must name the tables", code: command.Unusable},
		{measured: "lfts", stderr: "lfts is not what forsctl measure --json prints", code: command.Unusable},
		{measured: "gone", stderr: "gone: no such file", code: command.Unusable},
	} {
		var printed, stdout, stderr bytes.Buffer
		if code := Run([]string{"measure", "t", "--lfts", "lfts", "--log", "log", "--json"}, &printed, &stderr); code != command.Failed {
			t.Fatalf("%d: %s", code, &stderr)
		}
		if err := os.WriteFile("slow.json", printed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"acceptance", "t", "--failures", "0", "--measured", c.measured}, strings.Fields(c.flags)...)
		if code := Run(args, &stdout, &stderr); code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: exit code %d\n%s\n%s", c.measured, code, &stdout, &stderr)
		}
	}
}

package libfors

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
)

// lidsByPair lists the LID of every message by its source and destination.
func lidsByPair(v *phasetable.View) map[[2]int]ib.LID {
	lids := map[[2]int]ib.LID{}
	for s := range v.Servers() {
		for p := v.Phases() - 1; p >= 0; p-- {
			if e := v.Row(s).At(p); e.SendTo != phasetable.Idle {
				lids[[2]int{s, e.SendTo}] = e.DLID
			}
		}
	}
	return lids
}

// wantDump is the expected output of the probe for a table.
func wantDump(v *phasetable.View) []string {
	lids := lidsByPair(v)
	var lines []string
	for s := range v.Servers() {
		self := v.Server(s)
		lines = append(lines, fmt.Sprintf("server %d %016x %d %d %d %d %s", s, uint64(self.GUID), self.LID, self.LMC, self.Leaf, len(self.Name), self.Name))
		for p := range v.Phases() {
			e := v.Row(s).At(p)
			bits := ib.LID(0)
			if back, ok := lids[[2]int{e.SendTo, s}]; ok {
				bits = back - self.LID
			}
			lines = append(lines, fmt.Sprintf("%d %d %d %d %d", e.SendTo, e.RecvFrom, e.DLID, e.Lane, bits))
		}
	}
	const idle = "beyond -1 -1 0 -1 0"
	return append(lines, idle, idle, idle, "beyond -1 -1")
}

// TestEveryLookup compares every lookup with Go's, in tables of real plans and in tables with
// idle servers and without lanes.
func TestEveryLookup(t *testing.T) {
	idle := plan(t, 4, 3, 0, 2)
	for i := range idle.To { // server 5 does not send, so its pairs are one-way
		if i%len(idle.Servers) == 5 {
			idle.To[i], idle.Lane[i], idle.DLID[i] = phasetable.Idle, phasetable.Local, 0
		}
	}
	laneless := plan(t, 3, 3, 0, 2)
	laneless.Lanes = 0
	for i, d := range laneless.To {
		if d != phasetable.Idle {
			laneless.Lane[i], laneless.DLID[i] = phasetable.Local, laneless.Servers[d].LID
		}
	}
	for name, table := range map[string]*phasetable.Table{
		"a shift as a rule": threeLevels(t, 0), "blocks": threeLevels(t, 0, "Mid001/3"), "blocks of two LIDs": threeLevels(t, 1, "Leaf002/3", "Mid003/4"),
		"healthy": plan(t, 6, 6, 0, 3), "without lanes": laneless, "two dead cables": plan(t, 6, 6, 2, 3), "one-way": idle,
		"nobody": {Epoch: 7}, "one server": {Epoch: 7, Phases: 2, Servers: []phasetable.ServerEntry{{GUID: 1, LID: 1}},
			To: []int32{-1, -1}, Lane: []int16{-1, -1}, DLID: []ib.LID{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			data, view := encode(t, table)
			p := start(t)
			p.contains("memory "+write(t, data), fmt.Sprintf("epoch %d job 0 servers %d phases %d lanes %d lmc %d base %d length %d crc ",
				view.Epoch(), view.Servers(), view.Phases(), view.Lanes(), view.LMC(), baseLIDs(view), len(data)))
			if d := cmp.Diff(wantDump(view), p.do("dump")); d != "" {
				t.Errorf("lookups (-Go +C):\n%s", d)
			}
			lookUp(t, p, view)
		})
	}
}

// lookUp asks for every GUID, name and LID, and for some that are not there.
func lookUp(t *testing.T, p *probe, v *phasetable.View) {
	t.Helper()
	for s := range v.Servers() {
		self := v.Server(s)
		p.wants(fmt.Sprintf("guid %x", uint64(self.GUID)), fmt.Sprint(s))
		p.wants(fmt.Sprintf("guid %x", uint64(self.GUID)+1<<40), "-23")
		p.wants("name "+self.Name, strings.Trim(fmt.Sprint(v.FindName(self.Name)), "[]"))
	}
	lids := []ib.LID{0, 1, ib.MaxUnicastLID, 0xFFFF}
	for s := range v.Servers() {
		self := v.Server(s)
		lids = append(lids, self.LID-1, self.LID, self.LID+1<<self.LMC-1, self.LID+1<<self.LMC)
	}
	for a := -1; a <= v.Servers(); a++ {
		for b := -1; b <= v.Servers(); b++ {
			want := -23
			if a >= 0 && b >= 0 && a < v.Servers() && b < v.Servers() {
				if pair, ok := v.FindPair(a, b); ok {
					want = pair.Phase
				}
			}
			p.wants(fmt.Sprintf("phase %d %d", a, b), fmt.Sprint(want))
		}
	}
	for _, lid := range lids {
		want := -23
		if s, ok := v.FindLID(lid); ok {
			want = s
		}
		p.wants(fmt.Sprintf("lid %d", lid), fmt.Sprint(want))
	}
}

// baseLIDs is 1 if every message goes to the base LID of its destination.
func baseLIDs(v *phasetable.View) int {
	for s := range v.Servers() {
		for p := range v.Phases() {
			if e := v.Row(s).At(p); e.SendTo >= 0 && e.DLID != v.Server(e.SendTo).LID {
				return 0
			}
		}
	}
	return 1
}

// TestBaseLIDs opens tables for programs that send to base LIDs: that of a healthy
// fabric will do, one for lanes will not.
func TestBaseLIDs(t *testing.T) {
	p := start(t)
	healthy, _ := encode(t, plan(t, 4, 3, 0, 2))
	pinned, view := encode(t, plan(t, 4, 3, 1, 2))
	if baseLIDs(view) != 0 {
		t.Fatal("a plan for a dead cable takes base LIDs alone")
	}
	p.contains("base "+write(t, healthy), " base 1 ")
	path := write(t, pinned)
	p.contains("open "+path, " base 0 ")
	p.wants("base "+path, "error -26 0 0 "+path+": the plan of epoch 42 sends to LIDs of lanes: a program that sends to base LIDs needs the base plan, base.bin")
}

// TestPathBitsMirror checks the promises of fors.h about src_path_bits on a table that has
// every pair: the two ends of a connection mirror each other, and the bits are below 2^lmc.
func TestPathBitsMirror(t *testing.T) {
	data, view := encode(t, plan(t, 6, 6, 1, 3))
	p := start(t)
	p.do("memory %s", write(t, data))
	dlid, bits := map[[2]int]int{}, map[[2]int]int{}
	self := -1
	for _, line := range p.do("dump") {
		var to, from, lid, lane, b int
		if strings.HasPrefix(line, "server ") {
			self++
		} else if n, _ := fmt.Sscanf(line, "%d %d %d %d %d", &to, &from, &lid, &lane, &b); n == 5 && to >= 0 {
			dlid[[2]int{self, to}], bits[[2]int{self, to}] = lid, b
		}
	}
	n := view.Servers()
	if len(dlid) != n*(n-1) {
		t.Fatalf("%d pairs of %d", len(dlid), n*(n-1))
	}
	for pair, b := range bits {
		a := view.Server(pair[0])
		if x, ok := view.FindPair(pair[0], pair[1]); !ok || x.SrcPathBits != b || int(x.DLID) != dlid[pair] {
			t.Errorf("servers %v: Go has %+v, C source path bits %d and LID %d", pair, x, b, dlid[pair])
		}
		if back := dlid[[2]int{pair[1], pair[0]}]; int(a.LID)+b != back || b >= 1<<a.LMC {
			t.Errorf("servers %v: source LID %d+%d, the peer sends to %d", pair, a.LID, b, back)
		}
	}
}

// TestFindByText looks servers up as people name them.
func TestFindByText(t *testing.T) {
	names := []string{"node1 mlx5_0", "node1 mlx5_1", "Node2.site mlx5_0", "", "node1.other HCA-1", "8", "été", "node"}
	table := &phasetable.Table{Epoch: 42}
	for i, name := range names {
		table.Servers = append(table.Servers, phasetable.ServerEntry{GUID: ib.GUID(0x10 + i), LID: ib.LID(8 + 2*i), LMC: 1, Name: name})
	}
	data, _ := encode(t, table)
	p := start(t)
	p.do("memory %s", write(t, data))
	for command, want := range map[string]string{
		"name node1 mlx5_1":         "1",
		"name node1":                "",
		"name ":                     "3",
		"host node1":                "0\n1\n4",
		"host NODE1.other":          "0\n1\n4",
		"host node1.else":           "0\n1",
		"host node2":                "2",
		"host node2.site":           "2",
		"host node2.sit":            "",
		"host node":                 "7",
		"host ":                     "",
		"find node1 mlx5_1":         "1",
		"find 0x12":                 "2",
		"find 0X12":                 "error -23 0 0 no server of epoch 42 has the name, port GUID or LID \"0X12\"",
		"find 8":                    "5",
		"find 9":                    "0",
		"find 11":                   "1",
		"find 011":                  "1",
		"find node2":                "2",
		"find été":                  "6",
		"find 0x":                   "error -23 0 0 no server of epoch 42 has the name, port GUID or LID \"0x\"",
		"find 0x99999999999999999":  "error -23 0 0 no server of epoch 42 has the name, port GUID or LID \"0x99999999999999999\"",
		"find 99999999999999999999": "error -23 0 0 no server of epoch 42 has the name, port GUID or LID \"99999999999999999999\"",
		"find node1":                "error -24 0 0 several servers of epoch 42 are called \"node1\": name one by its port GUID",
	} {
		p.wants(command, want)
	}
}

// TestPortableChecksum runs the checksum without the processor's instruction on
// tables whose lengths leave every remainder.
func TestPortableChecksum(t *testing.T) {
	p := run(t, compile(t, slices.Concat(sanitizers, []string{"-DFORS_PORTABLE_CRC", "testdata/probe.c"}, sources(t))...))
	for n := range 17 {
		table := &phasetable.Table{Epoch: 1, Servers: []phasetable.ServerEntry{{GUID: 1, LID: 1, Name: strings.Repeat("x", n)}}}
		data, _ := encode(t, table)
		data = append(data, make([]byte, n)...) // after the last section; covered by the checksum
		reseal(data)
		p.contains("memory "+write(t, data), fmt.Sprintf("length %d ", len(data)))
		data[len(data)-1] ^= 0x10
		p.contains("memory "+write(t, data), "error -15 ")
	}
}

// TestFiles opens tables from files, and detects that these are replaced.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "phases.bin")
	replace := func(epoch uint64) {
		table := plan(t, 4, 3, 0, 2)
		table.Epoch = epoch
		data, _ := encode(t, table)
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t)
	p.contains("open "+path, "error -4 2 0 open "+path+": No such file or directory")
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.contains("open "+socket, "error -4 6 0 open "+socket+", which is no file: the socket of a forsd is called unix:"+socket+": ")
	p.contains("open "+dir, "error -4 21 0 read "+dir+": Is a directory")
	replace(42)
	p.contains("open "+path, "location "+path)
	p.contains("open file:"+path, "epoch 42 ")
	p.wants("newer", "0 0")
	p.wants("refresh", "0")
	replace(42)
	p.wants("newer", "0 0")
	replace(43)
	p.wants("newer", "1 43")
	replace(44)
	p.contains("refresh", "epoch 44 ")
	p.wants("newer", "0 0")
	if err := os.WriteFile(path, []byte("no table"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.contains("newer", "error -13 ")
	p.contains("refresh", "error -12 ")
	p.contains("dump", "server 0 ") // the table that was read is untouched
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.contains("newer", "error -4 2 ")
	p.contains("refresh", "error -4 2 ")

	replace(45)
	p.wants("setenv FORSD_TABLE="+path, "")
	p.wants("setenv FORSD_JOB=7", "") // of no meaning for a file
	p.contains("open", "epoch 45 ")
	p.contains("memory "+path, "epoch 45 ")
	p.contains("newer", "error -25 ")
	p.contains("refresh", "error -25 ")
}

// TestEveryCodeHasAText compares the codes of fors.h with the sentences.
func TestEveryCodeHasAText(t *testing.T) {
	p := start(t)
	var seen []string
	for code := 0; code >= -26; code-- {
		text := strings.Join(p.do("strerror %d", code), "")
		if text == "unknown code" || slices.Contains(seen, text) {
			t.Errorf("code %d: %q", code, text)
		}
		seen = append(seen, text)
	}
	p.wants("strerror -27", "unknown code")
	p.wants("strerror 1", "unknown code")
}

// TestUnderValgrind runs a library that was built as users build it.
func TestUnderValgrind(t *testing.T) {
	bin := compile(t, append(sources(t), "-O2", "testdata/probe.c")...)
	p := run(t, "valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=all", bin)
	data, view := encode(t, plan(t, 4, 3, 1, 2))
	p.contains("open "+write(t, data), "epoch 42 ")
	if d := cmp.Diff(wantDump(view), p.do("dump")); d != "" {
		t.Errorf("lookups (-Go +C):\n%s", d)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var batch []byte
	for range 100 {
		batch = appendBatch(batch, mutate(rng, data))
	}
	if verdicts := p.do("judge %s", write(t, batch)); len(verdicts) != 100 {
		t.Errorf("%d verdicts", len(verdicts))
	}
	p.contains("open "+write(t, data[:len(data)-1]), "error -12 ")
}

package phasetable

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const document = "../docs/phase-table.md"

func readDocument(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// TestDocumentedLayout compares the tables of fields in the document with the
// constants of the code, and checks that the fields leave no hole.
func TestDocumentedLayout(t *testing.T) {
	want := map[string]int{"magic": offMagic, "version": offVersion, "header_size": offHeaderSize, "total": offTotal, "crc": offCRC,
		"flags": offFlags, "epoch": offEpoch, "job": offJob, "topology_hash": offHash, "servers": offServers, "phases": offPhases,
		"lanes": offLanes, "lmc_max": offLMC, "sections": offSections,
		"guid": srvGUID, "lid": srvLID, "lmc": srvLMC, "leaf": srvLeaf, "name_off": srvNameOff, "name_len": srvNameLen,
		"send_to": 0, "recv_from": shiftRecv / 8, "dlid": shiftDLID / 8, "lane": shiftLane / 8}
	got, end := map[string]int{}, 0
	var ends []int
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d+) \\| (\\d+) \\| `(\\w+)` \\|").FindAllStringSubmatch(readDocument(t), -1) {
		var off, size int
		if _, err := fmt.Sscan(m[1], &off); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(m[2], &size); err != nil {
			t.Fatal(err)
		}
		if off == 0 && end > 0 {
			ends, end = append(ends, end), 0
		}
		if off != end {
			t.Errorf("field %s begins at %d, the field before it ends at %d", m[3], off, end)
		}
		end = off + size
		if !strings.Contains(m[3], "reserved") {
			got[m[3]] = off
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offsets (-code +document):\n%s", diff)
	}
	if diff := cmp.Diff([]int{headerSize, srvSize, entrySize}, append(ends, end)); diff != "" {
		t.Errorf("sizes (-code +document):\n%s", diff)
	}
}

// TestDocumentedReader compiles the C program to which the document links and compares its
// output with Go's view of the table.
func TestDocumentedReader(t *testing.T) {
	const src = "../examples/phasetable.c"
	if !strings.Contains(readDocument(t), "("+src+")") {
		t.Errorf("%s does not link to %s", document, src)
	}
	dir := t.TempDir()
	bin, file := filepath.Join(dir, "phases"), filepath.Join(dir, "phases.bin")
	if out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", bin, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	table := shiftTable(3, 4, 2)
	table.Servers[2].GUID, table.Servers[9].GUID = 0xfedcba9876543210, 7 // not in server order
	data := mustEncode(t, table)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	v := mustDecode(t, data)
	for s := range v.Servers() {
		self := v.Server(s)
		want := fmt.Sprintf("epoch %d server %d %s\n", v.Epoch(), s, self.Name)
		for p := range v.Phases() {
			e := v.Row(s).At(p)
			want += fmt.Sprintf("%d %d %d %d %d\n", p, uint16(e.SendTo), uint16(e.RecvFrom), e.DLID, e.Lane)
		}
		got, err := exec.Command(bin, file, self.GUID.String()).Output()
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Fatalf("server %d: error %v (-want +got):\n%s", s, err, diff)
		}
	}
	if err := exec.Command(bin, file, "0x1").Run(); err == nil {
		t.Error("the program finds a GUID that is not there")
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(bin, file, table.Servers[0].GUID.String()).Run(); err == nil {
		t.Error("the program accepts a damaged file")
	}
}

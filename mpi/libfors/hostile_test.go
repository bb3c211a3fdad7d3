package libfors

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
)

var le = binary.LittleEndian

// reseal corrects the length and the checksum of a table.
func reseal(data []byte) {
	if len(data) < 192 {
		return
	}
	le.PutUint64(data[16:], uint64(len(data)))
	le.PutUint32(data[24:], 0)
	le.PutUint32(data[24:], crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// section returns the offset of a section of a table.
func section(data []byte, i int) int { return int(le.Uint64(data[96+16*i:])) }

// small is a table of four servers on two leaves, in two phases; the last server
// does nothing in the second.
func small(t testing.TB) []byte {
	table := &phasetable.Table{Epoch: 42, Phases: 2, Lanes: 2}
	for s := range 4 {
		table.Servers = append(table.Servers, phasetable.ServerEntry{GUID: ib.GUID(0x20 - s), LID: ib.LID(100 + 2*s), LMC: 1, Leaf: s / 2, Name: "hôte"})
	}
	table.To = []int32{1, 2, 3, 0, 2, 0, 1, -1}
	table.Lane = []int16{-1, 0, -1, 1, 1, -1, 0, -1}
	table.DLID = []ib.LID{102, 104, 106, 101, 105, 100, 103, 0}
	data, _ := encode(t, table)
	return data
}

// TestBrokenTables breaks every field and every section in turn.
func TestBrokenTables(t *testing.T) {
	put16 := func(at int, v uint16) func([]byte) { return func(b []byte) { le.PutUint16(b[at:], v) } }
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	put64 := func(at int, v uint64) func([]byte) { return func(b []byte) { le.PutUint64(b[at:], v) } }
	in := func(sec, at int, put func(int) func([]byte)) func([]byte) {
		return func(b []byte) { put(section(b, sec) + at)(b) }
	}
	as16 := func(v uint16) func(int) func([]byte) { return func(at int) func([]byte) { return put16(at, v) } }
	as32 := func(v uint32) func(int) func([]byte) { return func(at int) func([]byte) { return put32(at, v) } }
	as64 := func(v uint64) func(int) func([]byte) { return func(at int) func([]byte) { return put64(at, v) } }
	byteAt := func(v byte) func(int) func([]byte) {
		return func(at int) func([]byte) { return func(b []byte) { b[at] = v } }
	}
	p := start(t)
	// The cell of server s in phase p is at 16·s + 8·p of section 4.
	for _, c := range []struct {
		name   string
		spoil  func([]byte)
		code   int
		reason string
	}{
		{"magic", put64(0, 1), -13, "FORSDPHT"},
		{"version", put32(8, 3), -14, "version 3"},
		{"version of rules", put32(8, 2), -17, "a header of 192 bytes"},
		{"flags", put32(28, 1<<16), -16, "flags 0x00010000"},
		{"flags that may be ignored", put32(28, 0xFFFF), 0, ""},
		{"header size", put32(12, 128), -17, "128 bytes"},
		{"header size not aligned", put32(12, 200), -17, "200 bytes"},
		{"header beyond the sections", put32(12, 256), -18, "server directory: offset 192"},
		{"huge header", put32(12, 0xFFFFFFC0), -18, "server directory"},
		{"too many servers", put32(80, 49152), -17, "49152 servers"},
		{"all the servers", put32(80, 0xFFFFFFFF), -17, "4294967295 servers"},
		{"one server more", put32(80, 5), -18, "server directory: 96 bytes for 5 servers"},
		{"no servers", put32(80, 0), -17, "2 phases for 0 servers"},
		{"huge number of phases", put32(84, 1<<31), -17, "2147483648 phases"},
		{"many phases", put32(84, 1<<31-1), -18, "rows: 64 bytes"},
		{"lanes", put16(88, 0x8000), -17, "32768 lanes"},
		{"fewer lanes", put16(88, 1), -21, "want one of 1 lanes"},
		{"no lanes", put16(88, 0), -21, "on one leaf or without lanes: want lane -1"},
		{"largest LMC", put16(90, 2), -17, "the header says 2"},
		{"section not aligned", put64(96, 200), -18, "offset 200"},
		{"section beyond the end", put64(160, 1<<63), -18, "rows: offset 9223372036854775808"},
		{"section too long", put64(168, 1<<63), -18, "length 9223372036854775808"},
		{"sections overlap", put64(112, 192), -18, "index by GUID: offset 192"},
		{"short section", put64(120, 12), -18, "index by GUID: 12 bytes"},
		{"no string table", put64(152, 0), -19, "string table of 0"},
		{"string table without its last byte", put64(152, 23), -19, "server 3: a name of 5 bytes at 18 in a string table of 23"},
		{"GUID", in(0, 24, as64(0)), -19, "server 1 has no port GUID"},
		{"LID zero", in(0, 24+8, as16(0)), -19, "server 1: LID 0"},
		{"LID beyond unicast", in(0, 24+8, as16(0xBFFF)), -19, "server 1: LID 49151 with LMC 1"},
		{"LMC", in(0, 24+10, byteAt(8)), -19, "LMC 8"},
		{"wild LMC", in(0, 24+10, byteAt(255)), -19, "LMC 255"},
		{"name beyond the table", in(0, 16, as32(0xFFFFFFFF)), -19, "a name of 5 bytes at 4294967295"},
		{"endless name", in(0, 20, as32(0xFFFFFFFF)), -19, "a name of 4294967295 bytes"},
		{"name without end", in(0, 20, as32(4)), -19, "server 0: its name is not UTF-8 with a zero byte after it"},
		{"name not UTF-8", in(3, 1, byteAt(0xFF)), -19, "server 0: its name is not UTF-8"},
		{"GUID index out of range", in(1, 4, as32(4)), -20, "beyond the 4"},
		{"GUID index out of order", in(1, 0, as32(0)), -20, "index by GUID, place 1"},
		{"GUID index names one twice", in(1, 4, as32(3)), -20, "index by GUID, place 1"},
		{"GUID twice", in(0, 0, as64(0x1F)), -20, "index by GUID, place 3"},
		{"LID index out of range", in(2, 12, as32(1<<31)), -20, "beyond the 4"},
		{"LID index names one twice", in(2, 4, as32(0)), -20, "index by LID, place 1"},
		{"LID ranges overlap", in(0, 24+8, as16(101)), -20, "LID 101 of server 1 does not follow LID 101"},
		{"receiver out of range", in(4, 0, as16(4)), -21, "phase 0: server 0 sends to server 4"},
		{"receiver far out of range", in(4, 0, as16(0xFFFE)), -21, "sends to server 65534"},
		{"to itself", in(4, 0, as16(0)), -21, "server 0 sends to server 0"},
		{"receiver disagrees", in(4, 16+2, as16(3)), -21, "which receives from 3"},
		{"receiver without sender", in(4, 48+8+2, as16(0)), -21, "1 more servers receive than send"},
		{"sender without receiver", in(4, 16+2, as16(0xFFFF)), -21, "which receives from 65535"},
		{"idle with a LID", in(4, 48+8+4, as16(1)), -21, "does not send, yet has LID 1"},
		{"idle with a lane", in(4, 48+8+6, as16(0)), -21, "and lane 0"},
		{"local with a lane", in(4, 6, as16(0)), -21, "on one leaf"},
		{"local with another LID", in(4, 4, as16(103)), -21, "want lane -1 and the base LID 102"},
		{"lane out of range", in(4, 16+6, as16(2)), -21, "lane 2"},
		{"negative lane", in(4, 16+6, as16(0xFFFF)), -21, "lane -1"},
		{"LID below the receiver's", in(4, 16+4, as16(103)), -21, "LIDs 104 to 105"},
		{"LID above the receiver's", in(4, 16+4, as16(106)), -21, "LIDs 104 to 105"},
	} {
		data := small(t)
		c.spoil(data)
		reseal(data)
		verdict := p.do("judge %s", write(t, appendBatch(nil, data)))[0]
		if !strings.HasPrefix(verdict, fmt.Sprintf("%d ", c.code)) || !strings.Contains(verdict, c.reason) {
			t.Errorf("%s: verdict %q, want code %d and %q", c.name, verdict, c.code, c.reason)
		}
		if _, err := phasetable.Decode(data); (err == nil) != (c.code == 0) {
			t.Errorf("%s: Go's reader says %v", c.name, err)
		}
	}
}

// TestNoTable opens files that are not tables. The error names the file, cut short if the fault
// needs the room.
func TestNoTable(t *testing.T) {
	p, dir := start(t), t.TempDir()
	for _, name := range []string{"x", strings.Repeat("long", 60)} {
		path := filepath.Join(dir, name)
		for text, want := range map[string]string{
			"":                       "0 bytes are less than the header of 192",
			strings.Repeat("x", 192): "this does not begin with FORSDPHT, as a phase table does",
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := p.do("open %s", path)[0]
			_, sentence, _ := strings.Cut(got, " 0 0 ")
			at, reason, _ := strings.Cut(sentence, ": ")
			if reason != want || at == "" || !strings.HasPrefix(path, at) || len(name) == 1 && at != path {
				t.Errorf("%s says %q, want %q of %s", path, got, want, path)
			}
		}
	}
}

// TestNamesAreUTF8 gives names of all bytes at which the rules of UTF-8 change.
func TestNamesAreUTF8(t *testing.T) {
	edges := []byte{0, 'a', 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF}
	seed := small(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var batch []byte
	var wants []error
	for i := range len(edges)*len(edges)*len(edges) + 4000 {
		data := append([]byte(nil), seed...)
		name := data[section(data, 3):][:5]
		for k := range name {
			name[k] = edges[rng.IntN(len(edges))]
		}
		if i < len(edges)*len(edges)*len(edges) { // each three of them, then ASCII
			copy(name, []byte{edges[i%25], edges[i/25%25], edges[i/625], 'a', 'a'})
		}
		reseal(data)
		_, err := phasetable.Decode(data)
		batch, wants = appendBatch(batch, data), append(wants, err)
	}
	for i, verdict := range start(t).do("judge %s", write(t, batch)) {
		if (verdict == "0 ") != (wants[i] == nil) {
			t.Errorf("name %d: C says %q, Go says %v", i, verdict, wants[i])
		}
	}
}

// TestDamage flips every bit, and cuts a table at every length, without mending
// the checksum.
func TestDamage(t *testing.T) {
	data := small(t)
	var batch []byte
	for i := range data {
		spoiled := append([]byte(nil), data...)
		spoiled[i] ^= 1 << (i % 8)
		batch = appendBatch(batch, spoiled)
	}
	for n := range data {
		batch = appendBatch(batch, data[:n])
	}
	batch = appendBatch(batch, append(append([]byte(nil), data...), 0))
	for i, verdict := range start(t).do("judge %s", write(t, batch)) {
		want := "-15 "
		switch {
		case i >= len(data), i >= 16 && i < 24:
			want = "-12 "
		case i < 8:
			want = "-13 "
		case i < 12:
			want = "-14 "
		}
		if !strings.HasPrefix(verdict, want) {
			t.Errorf("damage %d of %d bytes: verdict %q, want %s", i, len(data), verdict, want)
		}
	}
}

// TestSameVerdictAsGo spoils tables at random, mends their checksums, and compares
// the verdicts of both readers.
func TestSameVerdictAsGo(t *testing.T) {
	const mutants = 4000
	rng := rand.New(rand.NewPCG(3, 4))
	seeds := [][]byte{small(t)}
	for dead := range 2 {
		data, _ := encode(t, plan(t, 3, 3, dead, 2))
		seeds = append(seeds, data)
	}
	for _, table := range []*phasetable.Table{threeLevels(t, 0), threeLevels(t, 1, "Leaf002/3", "Mid003/4")} {
		data, _ := encode(t, table)
		seeds = append(seeds, data)
	}
	var batch []byte
	var wants []error
	good := 0
	for range mutants {
		data := mutate(rng, seeds[rng.IntN(len(seeds))])
		_, err := phasetable.Decode(data)
		if err == nil {
			good++
		}
		batch, wants = appendBatch(batch, data), append(wants, err)
	}
	if good < mutants/100 || good > mutants*3/4 {
		t.Errorf("%d of %d mutants are good: they test little", good, mutants)
	}
	for i, verdict := range start(t).do("judge %s", write(t, batch)) {
		if (verdict == "0 ") != (wants[i] == nil) {
			t.Errorf("mutant %d: C says %q, Go says %v", i, verdict, wants[i])
		}
	}
}

// mutate spoils a few fields of a table, most of them by small steps, and mends
// length and checksum.
func mutate(rng *rand.Rand, data []byte) []byte {
	out := append([]byte(nil), data...)
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(out))
		if rng.IntN(3) == 0 {
			at = rng.IntN(256)
		}
		switch rng.IntN(4) {
		case 0:
			out[at] += byte(rng.IntN(5)) - 2
		case 1:
			out[at] = byte(rng.Uint32())
		case 2:
			from := rng.IntN(len(out) - 8)
			copy(out[at:], out[from:from+1+rng.IntN(8)])
		case 3:
			out[at] = []byte{0, 0x7F, 0x80, 0xFF}[rng.IntN(4)]
		}
	}
	reseal(out)
	return out
}

// appendBatch appends a table as the probe's judge reads it.
func appendBatch(batch, data []byte) []byte {
	return append(le.AppendUint32(batch, uint32(len(data))), data...)
}

package phasetable

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := anyTable(rt)
		data, err := Encode(in)
		if err != nil {
			rt.Fatal(err)
		}
		v, err := Decode(data)
		if err != nil {
			rt.Fatal(err)
		}
		out := v.Table()
		if diff := cmp.Diff(in, out); diff != "" {
			rt.Fatalf("table changed (-written +read):\n%s", diff)
		}
		again, err := Encode(out)
		if err != nil || !cmp.Equal(data, again) {
			rt.Fatalf("encoding twice gives other bytes (error %v)", err)
		}
		if made, err := New(in); err != nil || !reflect.DeepEqual(made, v) {
			rt.Fatalf("New gives another view than Decode (error %v)", err)
		}
	})
}

// TestRowsMirror reads every row against the plan it was made of.
func TestRowsMirror(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := anyTable(rt)
		v := mustDecode(rt, mustEncode(rt, in))
		n := len(in.Servers)
		for s := range n {
			row := v.Row(s)
			if row.Len() != in.Phases {
				rt.Fatalf("row of %d phases, want %d", row.Len(), in.Phases)
			}
			for p := range in.Phases {
				i := p*n + s
				want := Entry{SendTo: int(in.To[i]), RecvFrom: Idle, DLID: in.DLID[i], Lane: int(in.Lane[i])}
				for from, d := range in.To[p*n : (p+1)*n] {
					if int(d) == s {
						want.RecvFrom = from
					}
				}
				if got := row.At(p); got != want {
					rt.Fatalf("phase %d server %d: %+v, want %+v", p, s, got, want)
				}
			}
		}
	})
}

func TestFind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := anyTable(rt)
		v := mustDecode(rt, mustEncode(rt, in))
		owner := map[ib.LID]int{}
		for s, e := range in.Servers {
			for j := range 1 << e.LMC {
				owner[e.LID+ib.LID(j)] = s
			}
			if got, ok := v.FindGUID(e.GUID); !ok || got != s {
				rt.Fatalf("GUID %s: server %d (%t), want %d", e.GUID, got, ok, s)
			}
			if got, ok := v.FindGUID(e.GUID ^ 0x80); ok {
				rt.Fatalf("GUID %s found at server %d", e.GUID^0x80, got)
			}
		}
		for lid := range ib.LID(200) {
			want, has := owner[lid]
			if got, ok := v.FindLID(lid); ok != has || ok && got != want {
				rt.Fatalf("LID %d: server %d (%t), want %d (%t)", lid, got, ok, want, has)
			}
		}
		for _, name := range []string{"", "node", "größe/é;1", "nod"} {
			var want []int
			for s, e := range in.Servers {
				if e.Name == name {
					want = append(want, s)
				}
			}
			if diff := cmp.Diff(want, v.FindName(name)); diff != "" {
				rt.Fatalf("name %q (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestLayout reads a table with literal offsets, as a foreign reader would.
func TestLayout(t *testing.T) {
	in := shiftTable(2, 2, 1)
	in.Job = 7
	data := mustEncode(t, in)
	u16, u32, u64 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	got := map[string]uint64{
		"version": uint64(u32(data[8:])), "header": uint64(u32(data[12:])), "total": u64(data[16:]), "flags": uint64(u32(data[28:])),
		"epoch": u64(data[32:]), "job": u64(data[40:]), "hash end": uint64(data[79]) | uint64(data[78])<<8,
		"servers": uint64(u32(data[80:])), "phases": uint64(u32(data[84:])), "lanes": uint64(u16(data[88:])), "lmc": uint64(data[90]),
	}
	want := map[string]uint64{"version": 1, "header": 192, "total": uint64(len(data)), "flags": 0, "epoch": 42, "job": 7,
		"hash end": 0xfeed, "servers": 4, "phases": 3, "lanes": 2, "lmc": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	for i := range 5 {
		if off := u64(data[96+16*i:]); off%64 != 0 || off < 192 {
			t.Errorf("section %d begins at %d", i, off)
		}
	}
	rows := data[u64(data[160:]):]
	// Server 1 in phase 0 sends to 2 on lane 1 and receives from 0, its leaf's.
	if got := u64(rows[1*3*8:]); got != 2|0<<16|uint64(104+1)<<32|1<<48 {
		t.Errorf("entry %#x", got)
	}
	if got := u64(rows); uint16(got) != 1 || int16(got>>48) != -1 || uint16(got>>32) != 102 {
		t.Errorf("entry of a local transfer %#x", got)
	}
	crc := u32(data[24:])
	clear(data[24:28])
	if sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); sum != crc {
		t.Errorf("CRC %#x, want %#x", crc, sum)
	}
}

func TestDamageIsFound(t *testing.T) {
	data := mustEncode(t, shiftTable(2, 2, 1))
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := Decode(data); err == nil {
				t.Fatalf("bit %d of byte %d flipped: not noticed", bit, i)
			}
			data[i] ^= 1 << bit
		}
	}
	for n := range data {
		if _, err := Decode(data[:n]); err == nil {
			t.Fatalf("cut to %d bytes: not noticed", n)
		}
	}
	if _, err := Decode(append(data, 0)); err == nil {
		t.Error("a byte too many: not noticed")
	}
	mustDecode(t, data)
}

// reseal gives the file the CRC and the length that it should have.
func reseal(data []byte) []byte {
	if len(data) >= headerSize {
		le.PutUint64(data[offTotal:], uint64(len(data)))
		le.PutUint32(data[offCRC:], checksum(data))
	}
	return data
}

func TestDecodeRefuses(t *testing.T) {
	section := func(data []byte, i int) uint64 { return le.Uint64(data[offSections+16*i:]) }
	put16 := func(sec, at int, x uint16) func([]byte) {
		return func(d []byte) { le.PutUint16(d[section(d, sec)+uint64(at):], x) }
	}
	put32 := func(sec, at int, x uint32) func([]byte) {
		return func(d []byte) { le.PutUint32(d[section(d, sec)+uint64(at):], x) }
	}
	header32 := func(at int, x uint32) func([]byte) { return func(d []byte) { le.PutUint32(d[at:], x) } }
	// Rows of shiftTable(2, 2, 1): 3 phases of 8 bytes.
	row := func(server, phase int) int { return (server*3 + phase) * entrySize }
	for _, c := range []struct {
		name  string
		spoil func([]byte)
		want  string
	}{
		{"magic", func(d []byte) { d[0] = 'f' }, `begins with "fORSDPHT"`},
		{"version", header32(offVersion, 3), "version 3: this reader knows versions 1 and 2"},
		{"another version", header32(offVersion, 2), "header of 192 bytes: want a multiple of 64 from 256"},
		{"flag that must be known", header32(offFlags, 1<<16), "flags 0x00010000 are unknown"},
		{"header size", header32(offHeaderSize, 196), "header of 196 bytes"},
		{"header over sections", header32(offHeaderSize, 256), "server directory: offset 192"},
		{"servers", header32(offServers, 5), "server directory: 96 bytes for 5 servers"},
		{"too many servers", header32(offServers, 49152), "at most 49151"},
		{"phases", header32(offPhases, 4), "rows: 96 bytes for 4 servers and 4 phases: want 128"},
		{"too many phases", header32(offPhases, 1<<31), "2147483648 phases"},
		{"no servers", header32(offServers, 0), "3 phases for 0 servers"},
		{"lanes", func(d []byte) { le.PutUint16(d[offLanes:], 1<<15) }, "32768 lanes"},
		{"section misaligned", func(d []byte) { d[offSections+16*secRows]++ }, "rows: offset"},
		{"section beyond the file", func(d []byte) { le.PutUint64(d[offSections+16*secNames+8:], 1<<63) }, "string table: offset"},
		{"section far away", func(d []byte) { le.PutUint64(d[offSections+16*secRows:], 1<<64-64) }, "rows: offset"},
		{"LMC of the header", func(d []byte) { d[offLMC] = 2 }, "largest LMC is 1: the header says 2"},
		{"name beyond the table", put32(secServers, srvNameLen, 1<<31), "server 0: name at 0"},
		{"name up to the end of the table", put32(secServers, 3*srvSize+srvNameLen, 15), "server 3: name at 45 of 15 bytes in a string table of 60"},
		{"name without an end", put32(secServers, srvNameLen, 3), "zero byte after it"},
		{"name not UTF-8", put16(secNames, 0, 0xFFFF), "is not UTF-8"},
		{"no GUID", func(d []byte) { clear(d[section(d, secServers):][:8]) }, "server 0 (\"Hca0000 mlx5_0\"): it has no port GUID"},
		{"LMC", put16(secServers, srvLMC, 8), "LMC 8 is over 7"},
		{"multicast LID", put16(secServers, srvSize+srvLID, 0xBFFF), "LIDs 49151–49152 leave the unicast range"},
		{"LIDs overlap", put16(secServers, srvLID, 101), "index by LID, place 1: LID 102 of server 1"},
		{"index beyond the servers", put32(secByGUID, 4, 4), "names a server beyond"},
		{"index names one twice", put32(secByGUID, 4, 0), "index by GUID, place 1"},
		{"index out of order", func(d []byte) { put32(secByLID, 0, 1)(d); put32(secByLID, 4, 0)(d) }, "index by LID, place 1"},
		{"sends beyond the servers", put16(secRows, row(0, 0), 4), "server 0 sends to server 4: there are 4"},
		{"sends to itself", func(d []byte) { put16(secRows, row(0, 0), 0)(d); put16(secRows, row(0, 0)+2, 0)(d) }, "sends to itself"},
		{"receiver names another", put16(secRows, row(0, 0), 2), "server 0 sends to server 2, which receives from 1"},
		{"receiver without a sender", func(d []byte) {
			le.PutUint64(d[section(d, secRows)+uint64(row(0, 0)):], idleEntry&^(nobody<<shiftRecv)|3<<shiftRecv)
		},
			"phases 0–2: 1 more servers receive than send"},
		{"idle with a LID", func(d []byte) {
			put16(secRows, row(0, 0), nobody)(d)
			put16(secRows, row(1, 0)+2, nobody)(d)
		}, "server 0 does not send, yet has LID 102 and lane -1"},
		{"local on a lane", put16(secRows, row(0, 0)+6, 1), "lane 1 between servers of leaf 0"},
		{"local off the base LID", put16(secRows, row(0, 0)+4, 103), "want the base LID 102"},
		{"lane beyond the lanes", put16(secRows, row(1, 0)+6, 2), "lane 2 from leaf 0 to leaf 1: want 0 to 1"},
		{"lane of nothing", put16(secRows, row(1, 0)+6, nobody), "lane -1 from leaf 0 to leaf 1"},
		{"LID of another", put16(secRows, row(1, 0)+4, 106), "LID 106 is not one of the destination's, 104–105"},
	} {
		data := mustEncode(t, shiftTable(2, 2, 1))
		c.spoil(data)
		_, err := Decode(reseal(data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestReceiverAlone covers an error that the senders' side does not show: a receiver without
// a sender.
func TestReceiverAlone(t *testing.T) {
	in := newTable(2, 1, 1)
	in.Servers[0] = ServerEntry{GUID: 1, LID: 1, Name: "a"}
	in.Servers[1] = ServerEntry{GUID: 2, LID: 2, Name: "b"}
	data := mustEncode(t, in)
	rows := le.Uint64(data[offSections+16*secRows:])
	le.PutUint16(data[rows+2:], 1)
	if _, err := Decode(reseal(data)); err == nil || !strings.Contains(err.Error(), "phases 0–0: 1 more servers receive than send") {
		t.Errorf("error %v", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Table)
		want  string
	}{
		{"short rows", func(t *Table) { t.Lane = t.Lane[1:] }, "rows of 12 destinations, 11 lanes and 12 LIDs"},
		{"negative phases", func(t *Table) { t.Phases = -1 }, "-1 phases"},
		{"negative lanes", func(t *Table) { t.Lanes = -1 }, "-1 lanes"},
		{"short hash", func(t *Table) { t.TopologyHash = "ab" }, "topology hash of 2 digits"},
		{"hash of no digits", func(t *Table) { t.TopologyHash = strings.Repeat("x", 64) }, "topology hash: "},
		{"same GUID", func(t *Table) { t.Servers[3].GUID = t.Servers[1].GUID }, "servers 1 and 3 both have port GUID 0x0000000000100003"},
		{"same LID", func(t *Table) { t.Servers[3].LID = 103 }, "LID 103 of server 3 is in the range 102–103 of server 1"},
		{"no LID", func(t *Table) { t.Servers[0].LID = 0 }, "it has no LID"},
		{"leaf", func(t *Table) { t.Servers[0].Leaf = -1 }, "leaf -1"},
		{"to nowhere", func(t *Table) { t.To[5] = -2 }, "phase 1, server 1 sends to server -2"},
		{"receives twice", func(t *Table) { t.set(0, 0, 2, 0) }, "server 2 receives from servers 0 and 1"},
		{"wrong LID", func(t *Table) { t.DLID[1]++; t.DLID[1]++ }, "is not one of the destination's"},
	} {
		in := shiftTable(2, 2, 1)
		c.spoil(in)
		data, err := Encode(in)
		if err == nil || !strings.Contains(err.Error(), c.want) || data != nil {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestWithoutLanes has a table of no lanes, in which every transfer goes without one
// and to a base LID, also from leaf to leaf.
func TestWithoutLanes(t *testing.T) {
	without := func() *Table {
		in := shiftTable(2, 2, 1)
		in.Lanes = 0
		for i, d := range in.To {
			in.Lane[i], in.DLID[i] = Local, in.Servers[d].LID
		}
		return in
	}
	data := mustEncode(t, without())
	v, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if x := v.Row(1).At(0); x.SendTo != 2 || x.Lane != Local || x.DLID != v.Server(2).LID || v.Server(1).Leaf == v.Server(2).Leaf {
		t.Errorf("server 1 on leaf %d does %+v in phase 0", v.Server(1).Leaf, x)
	}
	for want, spoil := range map[string]func(*Table){
		"lane 0 where there are none: want -1":                        func(t *Table) { t.Lane[1] = 0 },
		"LID 105 of a transfer without a lane: want the base LID 104": func(t *Table) { t.DLID[1]++ },
		"lane -1 from leaf 0 to leaf 1: want 0 to 1":                  func(t *Table) { t.Lanes = 2 },
	} {
		in := without()
		spoil(in)
		if _, err := Encode(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestForwardCompatible checks the promise of docs/phase-table.md: flags of the
// lower half, reserved bytes and a longer header do not stop a reader.
func TestForwardCompatible(t *testing.T) {
	in := shiftTable(2, 2, 1)
	data := mustEncode(t, in)
	longer := append(append(append([]byte{}, data[:headerSize]...), make([]byte, align)...), data[headerSize:]...)
	le.PutUint32(longer[offHeaderSize:], headerSize+align)
	le.PutUint32(longer[offFlags:], 2)
	longer[headerSize-1], longer[headerSize+3] = 1, 1
	for i := range sections {
		at := offSections + 16*i
		le.PutUint64(longer[at:], le.Uint64(longer[at:])+align)
	}
	if diff := cmp.Diff(in, mustDecode(t, reseal(longer)).Table()); diff != "" {
		t.Errorf("table changed (-written +read):\n%s", diff)
	}
}

func TestIs(t *testing.T) {
	if data := mustEncode(t, &Table{}); !Is(data) || Is(data[1:]) || Is(nil) || Is([]byte(CSVHeader)) {
		t.Error("Is mistakes what is a phase table")
	}
}

func TestInvalidUTF8Names(t *testing.T) {
	in := shiftTable(1, 2, 0)
	in.Servers[1].Name = "a\xffb"
	if got := mustDecode(t, mustEncode(t, in)).Server(1).Name; got != "a\uFFFDb" {
		t.Errorf("name %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, t := range []*Table{shiftTable(2, 2, 1), shiftTable(1, 3, 0), shiftTable(3, 4, 2), {}, blockTable(2, 3, 2), placesTable(2, 2, 2)} {
		data := mustEncode(f, t)
		f.Add(data, false)
		f.Add(data, true)
		f.Add(data[:len(data)/2], true)
	}
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = reseal(append([]byte{}, data...))
		}
		v, err := Decode(data)
		if err != nil {
			return
		}
		table := v.Table()
		again, err := Encode(table)
		if err != nil {
			t.Fatalf("decoded, yet cannot be encoded: %v", err)
		}
		if diff := cmp.Diff(table, mustDecode(t, again).Table()); diff != "" {
			t.Fatalf("table changed:\n%s", diff)
		}
		for s := range v.Servers() {
			if got, ok := v.FindLID(v.Server(s).LID); !ok || got != s {
				t.Fatalf("LID %d leads to server %d, want %d", v.Server(s).LID, got, s)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	t := shiftTable(18, 20, 5)
	for b.Loop() {
		mustEncode(b, t)
	}
}

func BenchmarkDecode(b *testing.B) {
	data := mustEncode(b, shiftTable(18, 20, 5))
	for b.Loop() {
		mustDecode(b, data)
	}
}

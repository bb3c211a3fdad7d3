package phasetable

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestWriteCSV compares with lines made one by one and sorted as text: GUIDs of
// one length sort alike as text and as numbers.
func TestWriteCSV(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := anyTable(rt)
		want := CSVHeader + "\n"
		n := len(in.Servers)
		for p := range in.Phases {
			var lines []string
			for s, d := range in.To[p*n : (p+1)*n] {
				if d >= 0 {
					lines = append(lines, fmt.Sprintf("%d,0x%016x,0x%016x,%d,%d\n", p, uint64(in.Servers[s].GUID),
						uint64(in.Servers[d].GUID), in.Lane[p*n+s], in.DLID[p*n+s]))
				}
			}
			slices.Sort(lines)
			want += strings.Join(lines, "")
		}
		var got bytes.Buffer
		if err := WriteCSV(&got, in); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			rt.Fatalf("CSV (-want +got):\n%s", diff)
		}
	})
}

func TestCSVRoundTrip(t *testing.T) {
	in := shiftTable(18, 20, 5) // longer than the writer's buffer
	var out bytes.Buffer
	if err := WriteCSV(&out, in); err != nil {
		t.Fatal(err)
	}
	rows, err := ReadCSV(&out, "phases.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 359*360 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, got := range rows { // servers are in ascending order of GUID
		want := Row{i / 360, in.Servers[i%360].GUID, in.Servers[in.To[i]].GUID, int(in.Lane[i]), in.DLID[i]}
		if got != want {
			t.Fatalf("row %d: %+v, want %+v", i, got, want)
		}
	}
}

func TestReadCSVForms(t *testing.T) {
	for _, in := range []string{
		CSVHeader + "\n0,0x0000000000000001,0x00000000000000aB,-1,49151\n",
		CSVHeader + "\r\n0,0x0000000000000001,0x00000000000000ab,-1,49151\r\n",
	} {
		rows, err := ReadCSV(strings.NewReader(in), "phases.csv")
		if diff := cmp.Diff([]Row{{0, 1, 0xab, Local, 49151}}, rows); err != nil || diff != "" {
			t.Errorf("%q: error %v (-want +got):\n%s", in, err, diff)
		}
	}
}

func TestReadCSVRefuses(t *testing.T) {
	const good = "0,0x0000000000000001,0x0000000000000002,3,17\n"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "line 1: the file ends within the line"},
		{"header", "phase,src,dst,lane,dlid\n", `line 1: header "phase,src,dst,lane,dlid"`},
		{"cut", CSVHeader + "\n" + good + good[:len(good)-2], "line 3: the file ends within the line"},
		{"few fields", CSVHeader + "\n0,0x0000000000000001\n", "line 2: want the 5 fields phase,src_guid,dst_guid,lane,dlid"},
		{"many fields", CSVHeader + "\n" + good[:len(good)-1] + ",\n", "line 2: want the 5 fields"},
		{"empty line", CSVHeader + "\n" + good + "\n", "line 3: want the 5 fields"},
		{"phase", CSVHeader + "\n-" + good, `line 2: phase "-0": want a number from 0`},
		{"large phase", CSVHeader + "\n99999999999999999999" + good, "line 2: phase"},
		{"source", CSVHeader + "\n" + strings.Replace(good, "01,", "0g,", 1), `line 2: src_guid "0x000000000000000g": want 0x and 16 hexadecimal digits`},
		{"source zero", CSVHeader + "\n" + strings.Replace(good, "01,", "00,", 1), "line 2: src_guid"},
		{"short destination", CSVHeader + "\n" + strings.Replace(good, "02,", "2,", 1), "line 2: dst_guid"},
		{"lane", CSVHeader + "\n" + strings.Replace(good, ",3,", ",-2,", 1), `line 2: lane "-2"`},
		{"lane too large", CSVHeader + "\n" + strings.Replace(good, ",3,", ",32767,", 1), `line 2: lane "32767": want a number from 0 to 32766`},
		{"LID zero", CSVHeader + "\n" + strings.Replace(good, ",17", ",0", 1), `line 2: dlid "0": want a number from 1 to 49151`},
		{"LID empty", CSVHeader + "\n" + strings.Replace(good, ",17", ",", 1), `line 2: dlid ""`},
		{"long line", CSVHeader + "\n" + strings.Repeat("0", 1<<17) + "\n", "line 2: the line is too long"},
	} {
		rows, err := ReadCSV(strings.NewReader(c.in), "phases.csv")
		if err == nil || !strings.HasPrefix(err.Error(), "read phases.csv "+c.want) || rows != nil {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	_, err := ReadCSV(io.MultiReader(strings.NewReader(CSVHeader+"\n"), failing{}), "phases.csv")
	if err == nil || !strings.Contains(err.Error(), "line 2: device gone") {
		t.Errorf("failing reader: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, fmt.Errorf("device gone") }
func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("device gone") }

func TestWriteCSVRefuses(t *testing.T) {
	in := shiftTable(2, 2, 1)
	if err := WriteCSV(failing{}, in); err == nil || !strings.Contains(err.Error(), "device gone") {
		t.Errorf("failing writer: %v", err)
	}
	in.To[7] = 4
	if err := WriteCSV(io.Discard, in); err == nil || !strings.Contains(err.Error(), "phase 1, server 3 sends to server 4") {
		t.Errorf("server out of range: %v", err)
	}
}

func FuzzReadCSV(f *testing.F) {
	var seed bytes.Buffer
	if err := WriteCSV(&seed, shiftTable(2, 2, 1)); err != nil {
		f.Fatal(err)
	}
	f.Add(seed.Bytes())
	f.Add(seed.Bytes()[:100])
	f.Add([]byte(CSVHeader + "\r\n0,0x0000000000000001,0x00000000000000aB,-1,49151\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := ReadCSV(bytes.NewReader(data), "phases.csv")
		if err != nil {
			return
		}
		out := CSVHeader + "\n"
		for _, r := range rows {
			out += fmt.Sprintf("%d,%s,%s,%d,%d\n", r.Phase, r.Src, r.Dst, r.Lane, r.DLID)
		}
		again, err := ReadCSV(strings.NewReader(out), "phases.csv")
		if diff := cmp.Diff(rows, again); err != nil || diff != "" {
			t.Fatalf("error %v, rows changed:\n%s", err, diff)
		}
	})
}

func BenchmarkWriteCSV(b *testing.B) {
	t := shiftTable(18, 20, 5)
	for b.Loop() {
		if err := WriteCSV(io.Discard, t); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadCSV(b *testing.B) {
	var out bytes.Buffer
	if err := WriteCSV(&out, shiftTable(18, 20, 5)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ReadCSV(bytes.NewReader(out.Bytes()), "phases.csv"); err != nil {
			b.Fatal(err)
		}
	}
}

package hostlist

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestExpand(t *testing.T) {
	for expression, want := range map[string]string{
		"node001":                    "node001",
		"node[001-004,7]":            "node001 node002 node003 node004 node7",
		"node[001-002],x[1-2]y[3-4]": "node001 node002 x1y3 x1y4 x2y3 x2y4",
		"a, b ,a":                    "a b a",
		"n[8-11]":                    "n8 n9 n10 n11",
		"n[098-100]-ib":              "n098-ib n099-ib n100-ib",
		"[1-2]":                      "1 2",
		"0x10,b":                     "0x10 b",
	} {
		got, err := Expand(expression)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s is %v, %v; want %s", expression, got, err, want)
		}
	}
	for expression, want := range map[string]string{
		"":                          "names no host",
		" , ":                       "names no host",
		"n[1":                       "never closes",
		"n1]":                       "never opened",
		"n[[1]]":                    "within brackets",
		"n[]":                       "not a number",
		"n[1-]":                     "not a number",
		"n[a-c]":                    "not a number",
		"n[5-3]":                    "backwards",
		"n[1-99999999]":             "more than",
		"n[1-300][1-300]":           "more than",
		"n[1-65536],m":              "more than",
		"n[1-99999999999999999999]": "not a number",
		"a b":                       "without a comma",
	} {
		if got, err := Expand(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, %v; want an error with %q", expression, got, err, want)
		}
	}
}

func TestCompress(t *testing.T) {
	for hosts, want := range map[string]string{
		"node003 node001 node002 node007": "node[001-003,007]",
		"n8 n9 n10 n11":                   "n[8-11]",
		"n098 n099 n100":                  "n[098-100]",
		"n09 n10 n9":                      "n[9,09-10]",
		"b a a":                           "a,b",
		"r1n1 r1n2 r2n1":                  "r1n[1-2],r2n1",
		"n1-ib n2-ib n1":                  "n1,n[1-2]-ib",
		"":                                "",
	} {
		if got := Compress(strings.Fields(hosts)); got != want {
			t.Errorf("%s is %q, want %q", hosts, got, want)
		}
	}
}

// TestCompressKeepsHosts compresses random hosts and expands them again.
func TestCompressKeepsHosts(t *testing.T) {
	host := rapid.StringMatching(`[a-c]{0,1}[0-9]{0,3}(-ib)?`).Filter(func(s string) bool { return s != "" })
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOfN(host, 1, 60).Draw(t, "hosts")
		got, err := Expand(Compress(hosts))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(hosts)
		slices.Sort(got)
		if diff := cmp.Diff(slices.Compact(hosts), got); diff != "" {
			t.Fatalf("%s (-hosts +again):\n%s", Compress(hosts), diff)
		}
	})
}

func TestReadFile(t *testing.T) {
	got, err := ReadFile([]byte("# a cluster\nnode001 slots=4 max_slots=8\n\nnode002:2 binding=user:0,3 # two\nnode003\nnode003\n0x10\n"), "hosts")
	if diff := cmp.Diff([]Host{{"node001", 4}, {"node002", 2}, {"node003", 2}, {"0x10", 1}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"# none\n":                 "hosts names no host",
		"a\nb slots=x":             `hosts line 2: "x" is not a number`,
		"a:0":                      "not a number of processes",
		"a 4":                      "want slots=N",
		"slots=4":                  "is not a host",
		":4":                       "is not a host",
		"a:65536\na":               "hosts line 2: more than",
		"a slots=-1":               "not a number of processes",
		strings.Repeat("x", 1<<17): "too long",
	} {
		if hosts, err := ReadFile([]byte(text), "hosts"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q gives %v, %v; want an error with %q", text, hosts, err, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"node[001-004,7],x[1-2]y[3-4]", "a,[1-2", "n[0-0]", "]["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		hosts, err := Expand(expression)
		if err != nil {
			return
		}
		if len(hosts) == 0 || len(hosts) > Most {
			t.Fatalf("%d hosts", len(hosts))
		}
		for _, h := range hosts {
			if h == "" || strings.ContainsAny(h, ",[] \t\r\n") {
				t.Fatalf("host %q", h)
			}
		}
		usable := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return !Usable(h) })
		if len(usable) == 0 {
			return
		}
		again, err := Expand(Compress(usable))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(usable)
		slices.Sort(again)
		if !slices.Equal(slices.Compact(usable), again) {
			t.Fatalf("%q: %q came back as %q", expression, usable, again)
		}
	})
}

func FuzzReadFile(f *testing.F) {
	f.Add([]byte("node001 slots=4\nnode002:2\nnode003\nnode003\n"))
	f.Add([]byte("#\n:1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		hosts, err := ReadFile(data, "hosts")
		if err != nil {
			return
		}
		var out strings.Builder
		for _, h := range hosts {
			if h.Name == "" || h.Slots < 1 {
				t.Fatalf("%+v", h)
			}
			fmt.Fprintf(&out, "%s:%d\n", h.Name, h.Slots)
		}
		again, err := ReadFile([]byte(out.String()), "hosts")
		if err != nil || !slices.Equal(hosts, again) {
			t.Fatalf("%v came back as %v, %v", hosts, again, err)
		}
	})
}

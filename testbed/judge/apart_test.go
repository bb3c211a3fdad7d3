package judge

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestApart checks that the judge uses only the standard library and itself.
func TestApart(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for p := range strings.FieldsSeq(string(out)) {
		if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
			continue
		}
		if own++; !strings.HasSuffix(p, "/testbed/judge") {
			t.Errorf("the judge needs %s", p)
		}
	}
	if own == 0 {
		t.Error("go list does not show the judge itself")
	}
}

// TestIbdmchk checks that ibdmchk accepts good tables, and finds the faults of others.
func TestIbdmchk(t *testing.T) {
	if _, err := exec.LookPath("ibdmchk"); err != nil {
		t.Skip("ibutils is not installed")
	}
	rng := rand.New(rand.NewPCG(34, 2))
	ask := func(s *site, after int) error {
		f, err := ReadFabric(s.discovered)
		if err != nil {
			t.Fatal(err)
		}
		tables, err := ReadTables(s.tables)
		if err != nil {
			t.Fatal(err)
		}
		return new(Site).Ibdmchk(t.Context(), f, tables, after)
	}
	sites := []*site{onTwo(t), onThree(t, 0), onThree(t, 2)}
	for len(sites) < 40 {
		draw := drawTwo
		if rng.IntN(2) == 0 {
			draw = drawThree
		}
		if s := draw(t, rng); s != nil && s.answers[byLanes]["unreachable_pairs"] == 0.0 {
			sites = append(sites, s)
		}
	}
	for _, s := range sites {
		for after := range 2 {
			if err := ask(s, after); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	s := onTwo(t)
	s.table(func(at Tables) { at[spines][s.lid(3)+1] = 2 })
	if err := ask(s, 0); err != nil {
		t.Error(err)
	}
	if err := ask(s, 1); err == nil || !strings.Contains(err.Error(), "-E-") {
		t.Errorf("with an entry that leads to another leaf: %v", err)
	}
	for _, c := range faults {
		if s := onTwo(t); strings.HasPrefix(c.name, "ways depend") {
			if c.spoil(s); ask(s, 0) == nil {
				t.Errorf("%s", c.name)
			}
		}
	}
}

// TestReadCSV reads lines of phases.csv, and refuses what is not written as they are.
func TestReadCSV(t *testing.T) {
	const head, good = "phase,src_guid,dst_guid,lane,dlid\n", "17,0x00000000000000ab,0xfedcba9876543210,-1,49151\n"
	rows, err := ReadCSV([]byte(head + good + "0,0x0000000000000001,0x0000000000000002,3,4\n"))
	if err != nil || !slices.Equal(rows, []Transfer{{17, 0xab, 0xfedcba9876543210, -1, 49151}, {0, 1, 2, 3, 4}}) {
		t.Errorf("%v, %v", rows, err)
	}
	for was, is := range map[string]string{"17": "017", "17,": ",", "1": "a", "7,0x": "7,0X", "ab,": "AB,", "00ab": "ab", "0,-1": "0,-2", "-1": "", "49151": "049151", "151\n": "151,\n", "51\n": "51"} {
		if rows, err := ReadCSV([]byte(head + strings.Replace(good, was, is, 1))); err == nil {
			t.Errorf("with %q for %q it is %v", is, was, rows)
		}
	}
	if _, err := ReadCSV([]byte(good)); err == nil {
		t.Error("without a head")
	}
}

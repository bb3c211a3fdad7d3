package figures

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/scenario"
)

const pictures = "../../docs/figures"

// TestPicturesShowTheNumbers draws the numbers of docs/figures again: the SVGs
// there must come out byte for byte, and the PNGs in their size.
func TestPicturesShowTheNumbers(t *testing.T) {
	out := t.TempDir()
	for i := range sets {
		numbers, err := os.ReadFile(filepath.Join(pictures, sets[i].Name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, sets[i].Name+".csv"), numbers, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Draw(out); err != nil {
		t.Fatal(err)
	}
	for i := range sets {
		for _, f := range sets[i].Figures {
			if want, got := read(t, pictures, f.Name+".svg"), read(t, out, f.Name+".svg"); !bytes.Equal(want, got) {
				t.Errorf("%s.svg in docs/figures does not show the numbers there: run make figures", f.Name)
			}
			for _, dir := range []string{pictures, out} {
				c, err := png.DecodeConfig(bytes.NewReader(read(t, dir, f.Name+".png")))
				if err != nil {
					t.Fatal(err)
				}
				if want := math.Round(float64(f.Width) / 72 * chart.DPI); math.Abs(float64(c.Width)-want) > 1 {
					t.Errorf("%s.png in %s is %d pixels wide, want %.0f", f.Name, dir, c.Width, want)
				}
			}
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// long asks for all that can be measured again, and not a sample: FORS_LONG=1.
func long() bool { return os.Getenv("FORS_LONG") != "" }

// TestPhasesStillHold plans the smaller trees of Fig. 7 again, or all: the
// numbers must be those of docs/figures.
func TestPhasesStillHold(t *testing.T) {
	for i := range fig7 {
		tree := fig7[i].tree
		if tree.Spines > 20 && !long() {
			continue
		}
		now := chart.NewTable()
		if err := addPhases(t.Context(), now, tree); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(kept(t, &forsPhases, tree.String()), now.Rows[1:]); d != "" {
			t.Errorf("%s (-docs/figures +planned now):\n%s", tree, d)
		}
	}
}

// TestScenariosStillHold measures the worst of the paper's scenarios on a real
// OpenSM again, or all: the numbers must be those of docs/figures.
func TestScenariosStillHold(t *testing.T) {
	for _, s := range shown() {
		if s.Name != "3F SW0,5,11" && !long() {
			continue
		}
		now := chart.NewTable()
		if err := addScenario(t.Context(), now, s); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(kept(t, &forsScenarios, s.Name), now.Rows[1:]); d != "" {
			t.Errorf("%s (-docs/figures +measured now):\n%s", s.Name, d)
		}
	}
}

// TestScenarioStatements holds section 3.2 of the FORS paper to the numbers of Fig. 3: on
// OpenSM's default tables two dead spines cost as much as two links of a leaf, less than three
// links, and these less than three links of three leaves. By forsd's plan the throughput depends
// on f alone.
func TestScenarioStatements(t *testing.T) {
	gbps, of := map[string]float64{}, map[string]float64{} // [scenario] min-hop; [f] forsd
	for _, s := range shown() {
		for _, row := range kept(t, &forsScenarios, s.Name) {
			x, err := strconv.ParseFloat(row[10], 64)
			if err != nil {
				t.Fatal(err)
			}
			switch row[5] {
			case "minhop":
				gbps[s.Name] = x
			case scenario.Forsd:
				if y, ok := of[row[2]]; ok && x != y && !strings.Contains(s.Name, "random") {
					t.Errorf("%s: %v Gb/s by forsd, %v elsewhere with f = %s", s.Name, x, y, row[2])
				}
				of[row[2]] = x
			}
		}
	}
	spines, two, three, nine := gbps["SW18,19 out"], gbps["2F SW0"], gbps["3F SW0"], gbps["3F SW0,5,11"]
	if math.Abs(spines/two-1) > .02 || spines < three || three < nine || nine == 0 {
		t.Errorf("two spines %v Gb/s, two links %v, three %v, nine %v: want the first two alike, and then falling", spines, two, three, nine)
	}
}

// kept are the rows of docs/figures whose first field is the name.
func kept(t *testing.T, s *chart.Set, name string) (rows [][]string) {
	t.Helper()
	all, err := chart.ReadTable(filepath.Join(pictures, s.Name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range all.Rows[1:] {
		if row[0] == name {
			rows = append(rows, row)
		}
	}
	return rows
}

// TestDocumentHasTheNumbers compares the table of docs/figures.md with the CSV.
func TestDocumentHasTheNumbers(t *testing.T) {
	doc := string(read(t, "../../docs", "figures.md"))
	for _, s := range shown() {
		name, cells, phases := s.Name, "", ""
		if _, cables, random := strings.Cut(name, ": "); random {
			name = strings.Replace(cables, " ", " random ", 1)
		}
		for _, row := range kept(t, &forsScenarios, s.Name) {
			phases = row[3]
			if mean, err := strconv.ParseFloat(row[9], 64); err != nil {
				t.Fatal(err)
			} else if row[5] != row[6] {
				cells += " refuses |"
			} else {
				cells += fmt.Sprintf(" %.2f |", mean)
			}
		}
		if want := fmt.Sprintf("\n| %s |%s %s |\n", name, cells, phases); !strings.Contains(doc, want) {
			t.Errorf("docs/figures.md has no line %s", want)
		}
	}
}

// TestRefusals spoils the numbers and the call: each error must say what is wrong
// and where.
func TestRefusals(t *testing.T) {
	out := t.TempDir()
	spoil := func(set *chart.Set, from, to string) {
		numbers := strings.Replace(string(read(t, pictures, set.Name+".csv")), from, to, 1)
		if err := os.WriteFile(filepath.Join(out, set.Name+".csv"), []byte(numbers), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func()
		sets  []string
		want  string
	}{
		{"unknown set", func() {}, []string{"fig8"}, `unknown set "fig8"`},
		{"no numbers", func() {}, []string{"fors-phases"}, "fors-phases.csv: no such file"},
		{"empty", func() { _ = os.WriteFile(filepath.Join(out, "fors-phases.csv"), nil, 0o644) }, []string{"fors-phases"}, "want a header"},
		{"no column", func() { spoil(&forsPhases, "phases,", "faces,") }, []string{"fors-phases"}, `unknown column "phases"`},
		{"no number", func() { spoil(&forsPhases, ",127,", ",many,") }, []string{"fors-phases"}, "row 1, column phases"},
		{"no number", func() { spoil(&forsScenarios, "141.0437", "fast") }, []string{"fors-scenarios"}, "row 1, column model_gbps"},
		{"ragged", func() { spoil(&forsScenarios, "0F,", "") }, []string{"fors-scenarios"}, "wrong number of fields"},
	} {
		c.spoil()
		if err := Draw(out, c.sets...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

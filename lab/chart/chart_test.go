package chart

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// growth is a set with a panel of two curves of its numbers.
var growth = Set{
	Name: "growth",
	Measure: func(_ context.Context, step Step) (*Table, error) {
		t := NewTable("n", "square", "cube")
		for n := 1; n <= 4; n++ {
			step(n-1, 4, "measure")
			t.Add(n, float64(n*n), float64(n*n*n))
		}
		return t, nil
	},
	Figures: []Figure{{Name: "growth", Width: 4 * vg.Inch, Height: 3 * vg.Inch, Draw: func(c draw.Canvas, t *Table) error {
		lines := Lines{X: "n", Y: "value", LogY: true, Lines: []Line{{Name: "square", Dots: true}, {Name: "cube", Bare: true}}}
		for i := range t.Len() {
			r := t.Row(i)
			for k, column := range []string{"square", "cube"} {
				lines.Lines[k].Points = append(lines.Lines[k].Points, plotter.XY{X: r.Number("n"), Y: r.Number(column)})
			}
			if r.Err != nil {
				return r.Err
			}
		}
		return lines.Draw(c)
	}}},
}

// TestMake measures and draws a set twice: the steps are reported, and the files are
// the same.
func TestMake(t *testing.T) {
	var dirs [2]string
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), "new")
		steps := 0
		if err := growth.Make(t.Context(), dirs[i], func(done, total int, _ string) {
			if done != steps || total != 4 {
				t.Errorf("step %d of %d is told after %d", done, total, steps)
			}
			steps++
		}); err != nil {
			t.Fatal(err)
		}
		if steps != 4 {
			t.Errorf("%d steps were told, want 4", steps)
		}
	}
	for _, name := range []string{"growth.csv", "growth.svg", "growth.png"} {
		one, two := read(t, dirs[0], name), read(t, dirs[1], name)
		if len(one) == 0 || !bytes.Equal(one, two) {
			t.Errorf("%s: %d and %d bytes, which are not the same or nothing", name, len(one), len(two))
		}
	}
	if svg := string(read(t, dirs[0], "growth.svg")); !strings.Contains(svg, ">square</text>") || !strings.Contains(svg, ">cube</text>") {
		t.Error("the picture has no legend")
	}
}

// TestMakeFails spoils the measurement and the numbers: the error names the place.
func TestMakeFails(t *testing.T) {
	bad, dir := growth, t.TempDir()
	bad.Measure = func(context.Context, Step) (*Table, error) { return nil, errors.New("no fabric") }
	if err := bad.Make(t.Context(), dir, nil); err == nil || err.Error() != "growth: no fabric" {
		t.Errorf("a failed measurement gives %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "growth.csv"), []byte("n,square,cube\n1,1,one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := growth.Draw(dir); err == nil || !strings.Contains(err.Error(), `row 1, column cube: strconv.ParseFloat: parsing "one"`) {
		t.Errorf("spoilt numbers give %v", err)
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

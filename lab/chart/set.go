// Package chart draws figures of measured numbers in one style, as SVG and PNG,
// and writes the numbers as CSV. The same numbers give the same bytes.
package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Set is a set of numbers with the figures that show them. The numbers are in
// NAME.csv and contain no measured times. Without Measure, the numbers come from
// elsewhere, and the figures are drawn if NAME.csv exists.
type Set struct {
	Name    string
	Measure func(context.Context, Step) (*Table, error)
	Figures []Figure
}

// Step is called before each step of a measurement, with the number of steps done,
// their total, and the next step.
type Step func(done, total int, what string)

// Figure is a picture: NAME.svg and NAME.png.
type Figure struct {
	Name          string
	Width, Height vg.Length
	Draw          func(draw.Canvas, *Table) error
}

// Make measures the set and draws its figures into a directory, which it creates
// if necessary.
func (s *Set) Make(ctx context.Context, dir string, step Step) error {
	if s.Measure == nil {
		if _, err := os.Stat(s.numbers(dir)); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return s.Draw(dir)
	}
	t, err := s.Measure(ctx, step)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.numbers(dir), t.Encode(), 0o644); err != nil {
		return err
	}
	return s.Draw(dir)
}

// Draw draws the figures of the numbers that are in the directory.
func (s *Set) Draw(dir string) error {
	t, err := ReadTable(s.numbers(dir))
	if err != nil {
		return err
	}
	for _, f := range s.Figures {
		for _, format := range Formats {
			picture, err := f.Render(t, format)
			if err != nil {
				return fmt.Errorf("draw %s: %w", f.Name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, f.Name+"."+format), picture, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers is the file of the set's numbers.
func (s *Set) numbers(dir string) string { return filepath.Join(dir, s.Name+".csv") }

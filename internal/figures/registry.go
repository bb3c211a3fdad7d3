package main

import (
	"context"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// set is a set of numbers with the figures that show them. The numbers are in
// NAME.csv, and no time of a clock is among them.
type set struct {
	name    string
	measure func(context.Context) (*table, error)
	figures []figure
}

// figure is a picture: NAME.svg and NAME.png.
type figure struct {
	name          string
	width, height vg.Length
	draw          func(draw.Canvas, *table) error
}

// sets are all sets, in the order in which they are made. A package with figures
// of its own adds a file with a set, and a line here.
var sets = []set{
	forsScenarios,
	forsPhases,
}

// names lists the sets.
func names() []string {
	list := make([]string, len(sets))
	for i := range sets {
		list[i] = sets[i].name
	}
	return list
}

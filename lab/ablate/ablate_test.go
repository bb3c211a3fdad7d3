package main

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestListed checks that docs/figures/ablation.txt has the heuristics of the planners of fat
// trees, in their order, each with what its absence changes.
func TestListed(t *testing.T) {
	text, err := os.ReadFile("../../docs/figures/ablation.txt")
	if err != nil {
		t.Fatal(err)
	}
	var listed, want []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "  ") {
			listed[len(listed)-1] += "!"
		} else {
			listed = append(listed, strings.TrimSpace(line))
		}
	}
	for _, h := range trees {
		want = append(want, h.name)
	}
	for i, name := range listed {
		if listed[i] = strings.TrimRight(name, "!"); listed[i] == name {
			t.Errorf("%s: what changes is not said", name)
		}
	}
	if !slices.Equal(listed, want) {
		t.Errorf("the file lists %q, want %q", listed, want)
	}
}

// TestEdits checks that every heuristic is still where its edit expects it, and that the file
// without it is Go.
func TestEdits(t *testing.T) {
	for _, h := range append(trees, heuristics...) {
		text, err := h.without("../..")
		if err != nil {
			t.Errorf("%s: %v", h.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), h.file, text, 0); err != nil {
			t.Errorf("without %s: %v", h.name, err)
		}
	}
}

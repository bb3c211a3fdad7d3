package main

import (
	"go/parser"
	"go/token"
	"testing"
)

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

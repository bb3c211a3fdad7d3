package archtest

import (
	"cmp"
	"go/types"
	"strings"
	"testing"

	load "golang.org/x/tools/go/packages"
)

// mostInSet limits a type's method set: its own methods, those of its pointer, and those promoted
// from embedded types.
const mostInSet = 40

// largerSets are the limits of types with more. Lower them when the sets get smaller.
var largerSets = map[string]int{
	"api.Client": 48, // a method for each endpoint
	// Planners.
	"fors.destFrame": 75, "fors.destSeats": 59, "fors.laning": 50, "fors.repairing": 60,
	"podplan.baseWays": 54, "pods.frame": 56, "pods.instance": 44, "pods.seater": 66,
	"topology.core": 47, "topology.half": 46, "topology.podCore": 52,
}

// TestMethodSets limits the method sets of types, so that a reader of a type finds its methods in one
// place.
func TestMethodSets(t *testing.T) {
	loaded, err := load.Load(&load.Config{Dir: "../..", Mode: load.NeedName | load.NeedImports | load.NeedExportFile | load.NeedTypes | load.NeedSyntax}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, p := range loaded {
		path := strings.TrimPrefix(p.PkgPath, module)
		if top, _, _ := strings.Cut(path, "/"); outside[top] {
			continue
		}
		if len(p.Errors) > 0 {
			t.Fatalf("%s: %v", path, p.Errors[0])
		}
		for _, name := range p.Types.Scope().Names() {
			of, is := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !is || of.IsAlias() {
				continue
			}
			counted++
			n, key := types.NewMethodSet(types.NewPointer(of.Type())).Len(), path+"."+name
			if types.IsInterface(of.Type()) {
				n = types.NewMethodSet(of.Type()).Len()
			}
			if most := cmp.Or(largerSets[key], mostInSet); n > most {
				t.Errorf("%s has %d methods with those of embedded types, and at most %d", key, n, most)
			}
		}
	}
	if counted < 1000 {
		t.Fatalf("there are only %d types", counted)
	}
}

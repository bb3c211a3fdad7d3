package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The size limits for a type with methods, and for a package in internal.
const (
	mostMethods = 35
	mostFields  = 25
	mostLines   = 2500
)

// outside lists folders that are not part of the operator's programs.
var outside = map[string]bool{"lab": true, "testbed": true, "testdata": true, "docs": true, "bin": true, "dist": true, ".git": true}

// size counts the methods and fields of a type.
type size struct{ methods, fields int }

// TestSizes limits the size of types and packages, so that they remain readable.
func TestSizes(t *testing.T) {
	within := func(what string, n, most int) {
		t.Helper()
		if n > most {
			t.Errorf("%s: %d, and at most %d", what, n, most)
		}
	}
	counted := 0
	err := filepath.WalkDir("../..", func(dir string, d os.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case outside[d.Name()]:
			return filepath.SkipDir
		}
		types, lines, err := measure(dir)
		if err != nil {
			return err
		}
		counted += lines
		name := strings.TrimPrefix(filepath.ToSlash(dir), "../../")
		if strings.HasPrefix(name, "internal/") && name != "internal/cli" && name != "internal/forsplan" {
			within(name+" lines", lines, mostLines)
		}
		for of, s := range types {
			if s.methods == 0 || name == "internal/config" || name == "api" || name+"."+of == "opensm.Settings" {
				continue // settings and API records may be large
			}
			within(name+"."+of+" methods", s.methods, mostMethods)
			within(name+"."+of+" fields", s.fields, mostFields)
		}
		return nil
	})
	if err != nil || counted < 50_000 {
		t.Fatalf("%d lines: %v", counted, err)
	}
}

// measure counts the methods and fields of the types in a folder, and its lines, without tests.
func measure(dir string) (types map[string]*size, lines int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, 0, err
	}
	types = map[string]*size{}
	of := func(name string) *size {
		if types[name] == nil {
			types[name] = &size{}
		}
		return types[name]
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, 0, err
		}
		lines += strings.Count(string(text), "\n")
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, 0, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				if x.Recv != nil {
					of(receiver(x.Recv.List[0].Type)).methods++
				}
			case *ast.TypeSpec:
				if s, is := x.Type.(*ast.StructType); is {
					for _, f := range s.Fields.List {
						of(x.Name.Name).fields += max(1, len(f.Names))
					}
				}
			}
			return true
		})
	}
	return types, lines, nil
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

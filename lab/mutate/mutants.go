package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// The kinds of mistakes.
const (
	negated   = "condition negated"
	operator  = "operator swapped"
	bound     = "bound shifted"
	offByOne  = "constant off by one"
	dropped   = "statement left out"
	returning = "function left at once"
)

var kinds = []string{negated, operator, bound, offByOne, dropped, returning}

// mutant is one mistake.
type mutant struct {
	at   token.Position
	kind string
	text string // of the source that it spoils
}

// String prints the mistake and its position.
func (m *mutant) String() string {
	text, _, more := strings.Cut(m.text, "\n")
	if more {
		text += " …"
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", filepath.Base(m.at.Filename), m.at.Line, m.at.Column, m.kind, text)
}

// edit is a piece of text put into a file, or in place of some of it.
type edit struct {
	at, end int // offsets; at is end for an insertion
	text    string
	closes  bool // the text before it
	order   int  // as it was found: outer before inner
}

// spoilt is a package with all its mistakes in it, each behind its switch.
type spoilt struct {
	path, dir string
	fset      *token.FileSet
	pkg       *packages.Package
	mutants   []mutant
	files     map[string][]byte // by path
	apart     map[int]file      // by number: mistakes that no switch can hide, in a file of their own

	// of the file that is being spoilt
	file  *ast.File
	src   []byte
	edits []edit
	done  map[ast.Node]bool // conditions that are negated as a whole, and the last statements of functions
}

// file is a file with one mistake.
type file struct {
	name string
	text []byte
}

// load reads a package and the types in it.
func load(pattern string) (*spoilt, error) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax
	found, err := packages.Load(&packages.Config{Mode: mode}, pattern)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s names %d packages: name one", pattern, len(found))
	}
	p := found[0]
	if len(p.Errors) > 0 {
		return nil, p.Errors[0]
	}
	if len(p.GoFiles) == 0 {
		return nil, fmt.Errorf("%s has no Go files", pattern)
	}
	return &spoilt{path: p.PkgPath, dir: filepath.Dir(p.GoFiles[0]), fset: p.Fset, pkg: p, files: map[string][]byte{}, apart: map[int]file{}}, nil
}

// spoil puts mistakes into the files whose names match.
func (p *spoilt) spoil(wanted *regexp.Regexp) {
	for _, file := range p.pkg.Syntax {
		name := p.fset.Position(file.FileStart).Filename
		if !wanted.MatchString(filepath.Base(name)) || slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"C"` }) {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			continue // it was read a moment ago; the build says more
		}
		p.file, p.src, p.edits, p.done = file, src, nil, map[ast.Node]bool{}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil {
					p.function(d.Type, d.Body, d.Name.Name)
					ast.Inspect(d.Body, p.visit)
				}
			case *ast.GenDecl:
				p.declaration(name, d)
			}
		}
		p.files[name] = p.written(p.edits)
	}
}

// written is the file that is being spoilt with some edits.
func (p *spoilt) written(edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return a.at - b.at
		case a.closes != b.closes:
			if a.closes {
				return -1
			}
			return 1
		case a.closes:
			return b.order - a.order
		}
		return a.order - b.order
	})
	var out []byte
	from := 0
	for _, e := range edits {
		out = append(out, p.src[from:e.at]...)
		out = append(out, e.text...)
		from = e.end
	}
	return append(out, p.src[from:]...)
}

func (p *spoilt) offset(at token.Pos) int { return p.fset.Position(at).Offset }

func (p *spoilt) source(n ast.Node) string { return string(p.src[p.offset(n.Pos()):p.offset(n.End())]) }

// add numbers a mistake, from 1.
func (p *spoilt) add(n ast.Node, kind, text string) int {
	p.mutants = append(p.mutants, mutant{p.fset.Position(n.Pos()), kind, text})
	return len(p.mutants)
}

// wrap puts text before and after a node.
func (p *spoilt) wrap(n ast.Node, before, after string) {
	start, end := p.offset(n.Pos()), p.offset(n.End())
	p.edits = append(p.edits, edit{start, start, before, false, len(p.edits)}, edit{end, end, after, true, len(p.edits)})
}

// visit spoils a node of a function.
func (p *spoilt) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		p.function(n.Type, n.Body, "func")
	case *ast.BlockStmt:
		p.statements(n.List)
	case *ast.CommClause:
		p.statements(n.Body)
	case *ast.CaseClause:
		p.statements(n.Body)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, s := range n.Body.List {
				for _, e := range s.(*ast.CaseClause).List {
					p.negate(e)
				}
			}
		}
	case *ast.IfStmt:
		p.negate(n.Cond)
	case *ast.ForStmt:
		p.negate(n.Cond)
	case *ast.BinaryExpr:
		p.binary(n)
	case *ast.BasicLit:
		p.literal(n)
	case *ast.KeyValueExpr: // a key may have to be a constant
		ast.Inspect(n.Value, p.visit)
		return false
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.ArrayType:
		return false
	}
	return true
}

// declaration spoils the numbers of the package's variables and constants. A constant
// cannot depend on a switch.
func (p *spoilt) declaration(name string, d *ast.GenDecl) {
	for _, s := range d.Specs {
		v, is := s.(*ast.ValueSpec)
		if !is {
			continue
		}
		for _, e := range v.Values {
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if d.Tok == token.VAR {
						p.literal(n)
					} else if n.Kind == token.INT || n.Kind == token.FLOAT {
						at, end := p.offset(n.Pos()), p.offset(n.End())
						p.apart[p.add(n, offByOne, p.line(n))] = file{name, p.written([]edit{{at, end, "(" + n.Value + " + 1)", false, 0}})}
					}
				case *ast.ArrayType, *ast.KeyValueExpr, *ast.FuncLit:
					return false
				}
				return true
			})
		}
	}
}

// function makes a function return zero values at once. If control can then reach the end of
// its body, it panics there.
func (p *spoilt) function(t *ast.FuncType, body *ast.BlockStmt, name string) {
	if len(body.List) == 0 {
		return
	}
	var zero []string
	if t.Results != nil {
		for _, f := range t.Results.List {
			for range max(1, len(f.Names)) {
				zero = append(zero, "*new("+p.source(f.Type)+")")
			}
		}
	}
	n := p.add(body, returning, name)
	open, end := p.offset(body.Lbrace)+1, p.offset(body.Rbrace)
	p.edits = append(p.edits, edit{open, open, fmt.Sprintf(" if mutant__is(%d) { return %s }; ", n, strings.Join(zero, ", ")), false, len(p.edits)})
	last := body.List[len(body.List)-1]
	p.done[last] = true
	if len(zero) > 0 {
		p.edits = append(p.edits, edit{end, end, "; panic(\"mutate: no return\") ", false, len(p.edits)})
	}
}

// statements leaves out one statement after the other, but not the return at the end
// of a function.
func (p *spoilt) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok == token.FALLTHROUGH || s.Tok == token.GOTO {
				continue
			}
		case *ast.ExprStmt:
			if call, is := s.X.(*ast.CallExpr); is {
				if f, is := call.Fun.(*ast.Ident); is && f.Name == "panic" {
					continue
				}
			}
		case *ast.ReturnStmt:
			if p.done[s] { // of the function, whose end panics
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt:
		default:
			continue
		}
		p.wrap(s, fmt.Sprintf("if !mutant__is(%d) { ", p.add(s, dropped, p.source(s))), " }")
	}
}

// negate negates a condition.
func (p *spoilt) negate(e ast.Expr) {
	if e == nil || p.constant(e) {
		return
	}
	p.done[ast.Unparen(e)] = true
	p.wrap(e, fmt.Sprintf("mutant__not(%d, ", p.add(e, negated, p.source(e))), ")")
}

// constant reports whether the compiler knows the value of an expression.
func (p *spoilt) constant(e ast.Expr) bool { return p.pkg.TypesInfo.Types[e].Value != nil }

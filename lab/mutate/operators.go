package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// replace puts text in place of an operator.
func (p *spoilt) replace(op token.Pos, was token.Token, text string) {
	at := p.offset(op)
	p.edits = append(p.edits, edit{at, at + len(was.String()), text, false, len(p.edits)})
}

// binary replaces an operator by another. It leaves out changes that are the same as
// negating the whole condition.
func (p *spoilt) binary(n *ast.BinaryExpr) {
	if p.constant(n) {
		return
	}
	switch n.Op {
	case token.LAND, token.LOR:
		if t, basic := p.pkg.TypesInfo.TypeOf(n).(*types.Basic); !basic || t.Info()&types.IsBoolean == 0 {
			return
		}
		name := map[token.Token]string{token.LAND: "and", token.LOR: "or"}[n.Op]
		p.wrap(n, fmt.Sprintf("mutant__%s(%d, ", name, p.add(n, operator, p.source(n))), ") })")
		p.replace(n.OpPos, n.Op, ", func() bool { return (") // the right side may begin on the next line
	case token.EQL, token.NEQ:
		if !p.done[n] {
			p.wrap(n, fmt.Sprintf("mutant__not(%d, ", p.add(n, operator, p.source(n))), ")")
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if !p.ordered(n.X) || !p.ordered(n.Y) {
			return
		}
		name := map[token.Token]string{token.LSS: "less", token.LEQ: "atmost", token.GTR: "more", token.GEQ: "atleast"}[n.Op]
		p.wrap(n, fmt.Sprintf("mutant__%s(%d, ", name, p.add(n, bound, p.source(n))), ")")
		p.replace(n.OpPos, n.Op, ", ")
	case token.ADD, token.SUB, token.MUL, token.QUO:
		if !p.number(n) || p.shifted(n.X) || p.shifted(n.Y) {
			return
		}
		name := map[token.Token]string{token.ADD: "add", token.SUB: "sub", token.MUL: "mul", token.QUO: "div"}[n.Op]
		p.wrap(n, fmt.Sprintf("mutant__%s(%d, ", name, p.add(n, operator, p.source(n))), ")")
		p.replace(n.OpPos, n.Op, ", ")
	}
}

// ordered reports whether a generic function of ordered types accepts an operand.
func (p *spoilt) ordered(e ast.Expr) bool {
	b, is := p.pkg.TypesInfo.TypeOf(e).Underlying().(*types.Basic)
	return is && b.Info()&types.IsOrdered != 0 && !p.shifted(e)
}

// shifted reports whether an expression has a shift whose left operand takes its type
// from its context.
func (p *spoilt) shifted(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		b, is := n.(*ast.BinaryExpr)
		found = found || is && (b.Op == token.SHL || b.Op == token.SHR) && !p.constant(b) && p.constant(b.X)
		return !found
	})
	return found
}

func (p *spoilt) number(e ast.Expr) bool {
	b, is := p.pkg.TypesInfo.TypeOf(e).Underlying().(*types.Basic)
	return is && b.Info()&(types.IsInteger|types.IsFloat) != 0
}

// literal replaces a number by the next one, unless it is the mode of a file.
func (p *spoilt) literal(n *ast.BasicLit) {
	if n.Kind != token.INT && n.Kind != token.FLOAT || strings.HasPrefix(n.Value, "0o") {
		return
	}
	t := p.pkg.TypesInfo.TypeOf(n)
	name := p.typeName(t)
	if name == "" || !p.room(n, t) {
		return
	}
	p.wrap(n, fmt.Sprintf("mutant__next(%d, %s(", p.add(n, offByOne, p.line(n)), name), "))")
}

// room reports whether the next number fits the type, too.
func (p *spoilt) room(n *ast.BasicLit, t types.Type) bool {
	v, exact := constant.Int64Val(constant.ToInt(p.pkg.TypesInfo.Types[n].Value))
	b := t.Underlying().(*types.Basic)
	return !exact || b.Kind() != types.Uint8 && b.Kind() != types.Int8 || v < 127
}

// line is the source line of a node.
func (p *spoilt) line(n ast.Node) string {
	at, end := p.offset(n.Pos()), p.offset(n.End())
	for at > 0 && p.src[at-1] != '\n' {
		at--
	}
	for end < len(p.src) && p.src[end] != '\n' {
		end++
	}
	return strings.TrimSpace(string(p.src[at:end]))
}

// typeName is a number's type as the file can name it, or "".
func (p *spoilt) typeName(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		if t.Info()&types.IsUntyped == 0 {
			return t.Name()
		}
	case *types.Named:
		o := t.Obj()
		if o.Pkg() == p.pkg.Types && o.Parent() == p.pkg.Types.Scope() {
			return o.Name()
		}
		if o.Pkg() != nil && slices.ContainsFunc(p.file.Imports, func(i *ast.ImportSpec) bool {
			return i.Name == nil && i.Path.Value == strconv.Quote(o.Pkg().Path())
		}) {
			return o.Pkg().Name() + "." + o.Name()
		}
	}
	return ""
}
